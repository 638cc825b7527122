package saved

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// TestFileNames checks that files of different parts can coexist.
func TestFileNames(t *testing.T) {
	base := map[string]string{"resource": "pods", "type": "T", "namespace": "", "labels": "", "format": "1", "transform": "a"}
	with := func(key, value string) map[string]string {
		m := map[string]string{key: value}
		for k, v := range base {
			if _, set := m[k]; !set {
				m[k] = v
			}
		}
		return m
	}
	name := fileName("pods (labels a/b)", base)
	if name != filepath.Base(name) || name != plain(name) {
		t.Errorf("%q is no plain name", name)
	}
	for word, want := range map[string]string{"a-z.09": "a-z.09", "AZ": "az", "a/b:c@d{e`f": "a_b_c_d_e_f", "..x": "x", strings.Repeat("x", 200): strings.Repeat("x", 80)} {
		if got := plain(word); got != want {
			t.Errorf("%q became %q, want %q", word, got, want)
		}
	}
	if got := fileName("pods", with("namespace", "shop")); !strings.HasPrefix(got, "pods-shop-") || !strings.HasPrefix(fileName("pods", base), "pods-") {
		t.Errorf("file name %q does not tell whose it is", got)
	}
	for _, key := range []string{"resource", "type", "namespace", "labels"} {
		if fileName("pods (labels a/b)", with(key, "x")) == name {
			t.Errorf("another %s has the same file", key)
		}
	}
	for _, key := range []string{"format", "transform"} {
		if fileName("pods (labels a/b)", with(key, "x")) != name {
			t.Errorf("another %s has another file, so that the old one stays", key)
		}
	}
	if got := fileName("../../etc/passwd", map[string]string{"namespace": "../x"}); filepath.Base(got) != got {
		t.Errorf("file name %q", got)
	}
}

// TestLayout distinguishes types with different fields.
func TestLayout(t *testing.T) {
	type inner struct{ A int }
	type other struct{ A int64 }
	kinds := map[string]any{
		"int": struct{ X inner }{}, "int64": struct{ X other }{}, "tag": struct {
			X inner `json:"x"`
		}{}, "name": struct{ Y inner }{}, "slice": struct{ X []inner }{},
	}
	seen := map[string]string{}
	for name, v := range kinds {
		hash := layout(reflect.TypeOf(v))
		if before, ok := seen[hash]; ok {
			t.Errorf("%s and %s have the same layout", name, before)
		}
		seen[hash] = name
	}
	if once, again := layout(reflect.TypeFor[corev1.Pod]()), layout(reflect.TypeFor[corev1.Pod]()); once != again {
		t.Error("a type has two layouts")
	}
}

// TestJitter spreads the actions of programs started together, by up to a fifth in both directions.
func TestJitter(t *testing.T) {
	shortest, longest := time.Duration(1<<62), time.Duration(0)
	for range 2000 {
		d := jitter(time.Hour)
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < 48*time.Minute || shortest > 52*time.Minute || longest > 72*time.Minute || longest < 68*time.Minute {
		t.Errorf("from %v to %v, want 48 to 72 minutes", shortest, longest)
	}
	for range 2000 {
		if d := jitter(math.MaxInt64); d < 1e6*time.Hour {
			t.Fatalf("%v instead of practically never", d)
		}
	}
}

// TestSecretsAreRecognized by their Go type or by the resource; other types may have the same name.
func TestSecretsAreRecognized(t *testing.T) {
	type Secret struct{ corev1.ConfigMap }
	secret, pod := corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("pods")
	for _, tt := range []struct {
		typ      reflect.Type
		resource schema.GroupVersionResource
		want     bool
	}{
		{reflect.TypeFor[*corev1.Secret](), schema.GroupVersionResource{}, true}, {reflect.TypeFor[*corev1.Secret](), pod, true},
		{reflect.TypeFor[*metav1.PartialObjectMetadata](), secret, true}, {reflect.TypeFor[object.Object](), secret, true},
		{reflect.TypeFor[object.Object](), schema.GroupVersionResource{}, false}, {reflect.TypeFor[*Secret](), schema.GroupVersionResource{}, false},
		{reflect.TypeFor[*corev1.ConfigMap](), pod, false}, {reflect.TypeFor[*corev1.ConfigMap](), schema.GroupVersionResource{Group: "x", Version: "v1", Resource: "secrets"}, false},
	} {
		if got := isSecret(tt.typ, tt.resource); got != tt.want {
			t.Errorf("%v of %v: %t", tt.typ, tt.resource, got)
		}
	}
}
