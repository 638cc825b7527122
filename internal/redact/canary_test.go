package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tidings/tidings/internal/testseed"
)

var bundles = schema.GroupResource{Group: "x.io", Resource: "bundles"}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func asYAML(v any) string {
	text, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func packed(v any) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(asJSON(v)))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func annotated(name, text string) map[string]any {
	return map[string]any{"kind": "Bundle", "metadata": map[string]any{"name": "b", "annotations": map[string]any{name: text}}}
}

// TestSecretsInStrings has a Secret as text in an object of another kind.
func TestSecretsInStrings(t *testing.T) {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	template := map[string]any{"kind": "Bundle", "spec": map[string]any{"template": secretWith(password)}}
	bare := map[string]any{"spec": map[string]any{"template": map[string]any{"stringData": map[string]any{"password": password}}}}
	deep := map[string]any{"kind": "Secret", "template": map[string]any{"stringData": map[string]any{"password": password}, "data": map[string]any{"p": encoded(password)}}}
	for name, object := range map[string]map[string]any{
		"last applied":           annotated(lastApplied, asJSON(template)+"\n"),
		"last applied, indented": annotated(lastApplied, "\n  "+asJSON(template)),
		"another annotation":     annotated("tool.example.com/state", asJSON(template)),
		"yaml":                   annotated("tool.example.com/state", asYAML(template)),
		"yaml documents":         annotated("tool.example.com/state", "kind: ConfigMap\n---\n"+asYAML(secretWith(password))+"---\nkind: List\n"),
		"list":                   annotated("tool.example.com/state", asJSON([]any{1, secretWith(password)})),
		"json in json":           annotated(lastApplied, asJSON(annotated(lastApplied, asJSON(annotated(lastApplied, asJSON(template)))))),
		"yaml in json":           annotated(lastApplied, asJSON(map[string]any{"data": map[string]any{"manifest.yaml": asYAML(template)}})),
		"escaped":                annotated(lastApplied, strings.ReplaceAll(asJSON(template), "Secret", `\u0053ecret`)),
		"no kind":                annotated(lastApplied, asJSON(bare)),
		"no kind, as it is":      bare,
		"deep":                   deep,
		"deep, as text":          annotated(lastApplied, asJSON(deep)),
		"cut off":                annotated(lastApplied, asJSON(template)[:len(asJSON(template))-9]),
		"cut off and escaped":    annotated(lastApplied, `{"metadata":"`+strings.ReplaceAll(asJSON(template), `"`, `\"`)),
		"two at once":            annotated(lastApplied, asJSON(template)+asJSON(template)),
		"templated":              annotated("tool.example.com/chart", "kind: Secret\nmetadata: {{ .Name }}\nstringData:\n  password: "+password),
		"packed":                 annotated("objectset.rio.cattle.io/applied", packed(template)),
		"manifest in a field":    {"kind": "ConfigMap", "data": map[string]any{"all.yaml": asYAML(secretWith(password))}},
		"repeated": {"kind": "Bundle", "metadata": map[string]any{"annotations": map[string]any{"note": "the password is " + password}},
			"spec": map[string]any{"template": secretWith(password)}},
	} {
		refuse(t, name, Object(bundles, object), password)
		cleanBefore, cleanAfter := Pair(bundles, object, map[string]any{})
		refuse(t, name+", gone", []any{cleanBefore, cleanAfter}, password)
	}
}

// TestStringsThatHoldNoSecret remain unchanged.
func TestStringsThatHoldNoSecret(t *testing.T) {
	for _, text := range []string{
		"", "Secret", "Secret: not found", "kind: Secret things happen", `{"kind":"Secret"`[:8], "SecretList", "- Secret", "stringData",
		`MountVolume.SetUp failed for volume "x": secret "y" not found`, `{"volumes":[{"secret":{"secretName":"Secret"}}]}`,
		`{"objectRef":{"kind":"Secret","name":"db"},"n":1e3}`, "a: &x [1]\nb: *x\nc: Secret\n", "[not json] Secret", "{{ .Values.Secret }}",
	} {
		object := annotated("a", text)
		if clean := Object(bundles, object); asJSON(clean) != asJSON(object) {
			t.Errorf("%q became %s", text, asJSON(clean))
		}
	}
}

// TestLastAppliedIsRedactedInside: what is not secret remains readable, and changes are marked.
func TestLastAppliedIsRedactedInside(t *testing.T) {
	object := func(size int, value string) map[string]any {
		return annotated("a", asJSON(map[string]any{"size": size, "template": map[string]any{"kind": "Secret", "stringData": map[string]any{"p": value}}}))
	}
	before, after := Pair(bundles, object(1, password), object(2, "another password"))
	annotation := func(o map[string]any) any { return o["metadata"].(map[string]any)["annotations"].(map[string]any)["a"] }
	if got, want := annotation(before), `{"size":1,"template":{"kind":"Secret","stringData":{"p":"[redacted, 21 bytes]"}}}`; got != want {
		t.Errorf("before: %v", got)
	}
	if got, want := annotation(after), `{"size":2,"template":{"kind":"Secret","stringData":{"p":"[redacted, 16 bytes, changed]"}}}`; got != want {
		t.Errorf("after: %v", got)
	}
}

// TestCanaries hides a Secret inside random wrappings, as trees and as text, with another one before it.
func TestCanaries(t *testing.T) {
	r := testseed.Rand(t)
	for range 800 {
		before, after := wrap(r, secretWith(password), 6), wrap(r, secretWith(password+"!"), 6)
		if r.IntN(2) == 0 {
			after = before
		}
		cleanBefore, cleanAfter := Pair(bundles, before, after)
		refuse(t, "a wrapping", []any{cleanBefore, cleanAfter}, password)
		if t.Failed() {
			t.Fatalf("before %.2000s\nafter %.2000s", asJSON(before), asJSON(after))
		}
	}
}

func wrap(r *rand.Rand, inner map[string]any, depth int) map[string]any {
	for range 1 + r.IntN(depth) {
		switch r.IntN(8) {
		case 0:
			inner = map[string]any{"spec": inner}
		case 1:
			inner = map[string]any{"kind": "List", "items": []any{"x", inner}}
		case 2:
			inner = map[string]any{"kind": "Bundle", "template": map[string]any{"list": []any{[]any{inner}}}}
		case 3:
			inner = annotated("kubectl.kubernetes.io/last-applied-configuration", asJSON(inner))
		case 4:
			inner = annotated("state", asYAML(inner))
		case 5:
			inner = map[string]any{"kind": "ConfigMap", "data": map[string]any{"all.yaml": "kind: X\n---\n" + asYAML(inner)}}
		case 6:
			inner = annotated("state", asJSON([]any{inner, "text"}))
		case 7:
			inner = map[string]any{"kind": "Secret", "template": inner}
		}
	}
	return inner
}

// TestParsingIsBounded: a small text that repeats itself with aliases must not be parsed endlessly.
func TestParsingIsBounded(t *testing.T) {
	text := "kind: Secret\n"
	for range 6 {
		text = fmt.Sprintf("x: &x %q\nl: [%s]\n", text, strings.TrimSuffix(strings.Repeat("*x,", 200), ","))
	}
	object := annotated("a", text)
	if clean := Object(bundles, object); clean == nil {
		t.Error("nothing is left")
	}
}

// FuzzPair: whatever is in an annotation next to a Secret, the result does not contain its values.
func FuzzPair(f *testing.F) {
	f.Add(asJSON(secretWith(password)), "x")
	f.Add(asYAML(secretWith(password)), "---\n")
	f.Add("kind: Secret\nstringData: {a: "+password+"}", "{")
	f.Add("a: &a [*a]", "- ")
	f.Fuzz(func(t *testing.T, before, after string) {
		one, two := annotated("a", before), annotated("a", after)
		one["spec"], two["spec"] = secretWith(password), secretWith(password)
		cleanBefore, cleanAfter := Pair(bundles, one, two)
		refuse(t, "a pair", []any{cleanBefore, cleanAfter}, password)
	})
}
