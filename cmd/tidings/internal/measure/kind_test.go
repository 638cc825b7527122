package measure

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestBuiltinKinds compares with client-go's scheme: every listable kind of a stable version is known.
func TestBuiltinKinds(t *testing.T) {
	kinds := builtinKinds()
	all := scheme.Scheme.AllKnownTypes()
	for gvk, typ := range all {
		list := gvk.GroupVersion().WithKind(gvk.Kind + "List")
		unstable := strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta")
		if _, listable := all[list]; !listable || unstable || !strings.HasPrefix(typ.PkgPath(), "k8s.io/api/") {
			continue
		}
		k, known := kinds[gvk]
		if !known {
			t.Errorf("%v is missing", gvk)
			continue
		}
		delete(kinds, gvk)
		for _, trim := range []bool{false, true} {
			if _, err := k.clientGo(0, trim); err != nil {
				t.Errorf("%v: %v", gvk, err)
			}
			if _, err := k.tidings(0, trim); err != nil {
				t.Errorf("%v: %v", gvk, err)
			}
		}
	}
	for gvk := range kinds {
		t.Errorf("%v is no kind of the scheme", gvk)
	}
}

// TestBothDecodeTheSame: comparing memory is only meaningful if the objects are equal.
func TestBothDecodeTheSame(t *testing.T) {
	custom := wiretest.CustomResources(20, 1)
	custom = append(custom, []byte(`{"metadata":{"name":"without-a-kind"}}`))
	for _, trim := range []bool{false, true} {
		k := unstructuredKind("example.com/v1", "Widget")
		theirs, err := k.clientGo(len(custom), trim)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := k.tidings(len(custom), trim)
		if err != nil {
			t.Fatal(err)
		}
		for i, data := range custom {
			if err := theirs.decode(data); err != nil {
				t.Fatal(err)
			}
			if err := ours.decode(data); err != nil {
				t.Fatal(err)
			}
			a := theirs.(*clientGoCache[*unstructured.Unstructured]).list[i]
			b := ours.(*tidingsCache[*unstructured.Unstructured]).list[i]
			if !equality.Semantic.DeepEqual(a, b) {
				t.Fatalf("trim %v: %v\nand %v", trim, a, b)
			}
			if trim && len(b.GetManagedFields()) > 0 {
				t.Error("managedFields are still there")
			}
		}
		theirs.publish()
		ours.publish()
		if a, b := len(theirs.(*clientGoCache[*unstructured.Unstructured]).objects), ours.(*tidingsCache[*unstructured.Unstructured]).writer.Store().Snapshot().Len(); a != len(custom) || b != len(custom) {
			t.Errorf("%d and %d objects in the stores, want %d", a, b, len(custom))
		}
	}
}
