package json

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// remove is the model of trimming: it deletes the field at names from a decoded value.
func remove(v any, names ...string) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			remove(element, names...)
		}
	case map[string]any:
		if len(names) == 1 {
			delete(v, names[0])
		} else {
			remove(v[names[0]], names[1:]...)
		}
	}
}

func TestTrimEqualsRemoval(t *testing.T) {
	seed := testseed.Seed(t)
	docs := newDocuments(seed)
	paths := []string{"a", "metadata.labels", "spec[a.b]", "metadata.managedFields", "items.a.b", "b.b", "status.conditions.message", "é"}
	plain := newDecoder(t, wire.Options{NoSharing: true})
	d := newDecoder(t, wire.Options{Trim: paths})
	for range 700 {
		data := docs.next()
		want, wantErr := plain.Decode(data, nil)
		if wantErr == nil {
			for _, path := range paths {
				trim, err := wire.ParseTrim(path)
				if err != nil {
					t.Fatal(err)
				}
				remove(want.Object, trim.Names...)
			}
		}
		got, err := d.Decode(data, nil)
		if wantErr == nil && err != nil {
			t.Fatalf("decode %q: %v", data, err)
		}
		if wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("decode %q:\ngot  %v\nwant %v", data, got, want)
		}
	}
}

// A part that is trimmed in one place must not be taken for an equal part elsewhere that is not trimmed.
func TestTrimTellsEqualPartsApart(t *testing.T) {
	d := newDecoder(t, wire.Options{Trim: []string{"spec.part.secret"}})
	for range 3 {
		object, err := d.Decode([]byte(`{"kind":"K","status":{"part":{"secret":1,"x":2}},"spec":{"part":{"secret":1,"x":2}}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"kind": "K", "status": map[string]any{"part": map[string]any{"secret": int64(1), "x": int64(2)}},
			"spec": map[string]any{"part": map[string]any{"x": int64(2)}},
		}
		if !reflect.DeepEqual(object.Object, want) {
			t.Fatalf("got %v", object.Object)
		}
	}
}

func TestTrimPaths(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.managedFields":        "",
		"metadata.annotations[a.b/c]":   "",
		"metadata.annotations[a.b/c].d": "",
		"metadata.namespaces":           "",
		"metadata":                      "metadata.name cannot be trimmed",
		"metadata.name":                 "cannot be trimmed",
		"metadata[uid]":                 "cannot be trimmed",
		"metadata.resourceVersion":      "cannot be trimmed",
		"metadata.deletionTimestamp":    "cannot be trimmed",
		"metadata.namespace":            "cannot be trimmed",
		"kind":                          "cannot be trimmed",
		"":                              "a field name is missing",
		"a..b":                          "a field name is missing",
		"a.":                            "a field name is missing",
		"[a]":                           "a field name is missing",
		"a[b":                           "in brackets",
		"a[]":                           "in brackets",
		"a[b]c":                         "in brackets",
	} {
		_, err := NewUnstructured(wire.Options{Trim: []string{path}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("trim %q: error is %v, want %q", path, err, want)
		}
		if _, typed := NewTyped[*corev1.Pod](wire.Options{Trim: []string{path}}); (typed == nil) != (err == nil) {
			t.Errorf("trim %q: the typed decoder says %v", path, typed)
		}
	}
}

func TestTypedEqualsUpstream(t *testing.T) {
	d, err := NewTyped[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seed := testseed.Seed(t)
	docs := newDocuments(seed)
	docs.seeds = podDocs(t, 10)
	for range 400 {
		data := docs.next()
		var want corev1.Pod
		wantErr := kjson.UnmarshalCaseSensitivePreserveInts(data, &want)
		if string(data) == "null" {
			continue
		}
		got, err := d.Decode(data, nil)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, &want) || err != nil && got != nil {
			t.Fatalf("decode %q: got %v, %v, want %v, %v", data, got, err, want, wantErr)
		}
	}
}

func TestTypedTrim(t *testing.T) {
	d, err := NewTyped[*corev1.Pod](wire.Options{Trim: []string{"metadata.managedFields", "spec.containers.env", "status"}})
	if err != nil {
		t.Fatal(err)
	}
	bytes := uint64(0)
	for _, want := range wiretest.Pods(50, 1) {
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		bytes += uint64(len(data))
		got, err := d.Decode(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		want.ManagedFields, want.Status = nil, corev1.PodStatus{}
		for i := range want.Spec.Containers {
			want.Spec.Containers[i].Env = nil
		}
		if trimmed, _ := json.Marshal(got); string(trimmed) != string(must(t, want)) {
			t.Fatalf("got  %s\nwant %s", trimmed, must(t, want))
		}
	}
	if stats := d.Stats(); stats.Objects != 50 || stats.Bytes != bytes {
		t.Errorf("stats are %+v", stats)
	}
}

func must(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// chained is a type that refers to itself.
type chained struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Next              *chained           `json:"next"`
	All               map[string]chained `json:"all"`
}

func (c *chained) DeepCopyObject() runtime.Object { return c }

func TestTypedOfItself(t *testing.T) {
	d, err := NewTyped[*chained](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Decode([]byte(`{"next":{"all":{"a":{"metadata":{"name":"n"}}}}}`), nil); err != nil || got.Next.All["a"].Name != "n" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestLargestPart finds the largest struct that an object can hold any number of, wherever it is.
func TestLargestPart(t *testing.T) {
	type large struct{ Numbers [8]int64 }
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[large](): 0, reflect.TypeFor[[]large](): 64, reflect.TypeFor[map[string]large](): 64, reflect.TypeFor[*large](): 64,
		reflect.TypeFor[[2][]large](): 64, reflect.TypeFor[struct{ A [2]*large }](): 64, reflect.TypeFor[struct {
			A []int64
			B map[string][]large
		}](): 64, reflect.TypeFor[[]struct{ A []large }](): 64, reflect.TypeFor[[][2]large](): 128, reflect.TypeFor[[2]large](): 0,
	} {
		if got := largestPart(typ, map[reflect.Type]bool{}); got != want {
			t.Errorf("%v: %d bytes, want %d", typ, got, want)
		}
	}
}

// TestTypedScratch: the buffer for a huge document is freed with the next one.
func TestTypedScratch(t *testing.T) {
	d, err := NewTyped[*metav1.PartialObjectMetadata](wire.Options{Trim: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"x":[` + strings.Repeat("1,", 2*maxKeptNodes) + `1]}`, `{"x":"` + strings.Repeat("x", 2*maxScratch) + `"}`, `{}`} {
		if _, err := d.Decode([]byte(text), nil); err != nil {
			t.Fatal(err)
		}
		if kept := cap(d.cut.tape.nodes); kept > maxKeptNodes {
			t.Errorf("%d nodes are kept", kept)
		}
	}
	if cap(d.cut.out) > maxScratch {
		t.Errorf("%d bytes are kept", cap(d.cut.out))
	}
}

func TestTypedErrors(t *testing.T) {
	d, err := NewTyped[*metav1.PartialObjectMetadata](wire.Options{Trim: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "null", "[]", `{"a":}`, `{"metadata":5}`, `{"a":1}{}`, `"{"`} {
		if object, err := d.Decode([]byte(text), nil); err == nil || object != nil {
			t.Errorf("decode %q: got %v, %v", text, object, err)
		}
	}
}

func TestPeekFindsWhatDecodeFinds(t *testing.T) {
	seed := testseed.Seed(t)
	docs, d := newDocuments(seed), newDecoder(t, wire.Options{})
	docs.seeds = append(docs.seeds, podDocs(t, 20)...)
	found := 0
	for range 1000 {
		data := docs.next()
		meta, ok := d.Peek(data)
		object, err := upstream(data)
		if !ok || err != nil || strings.Count(string(data), `"metadata"`) > 1 {
			continue
		}
		found++
		if object.GetName() != string(meta.Name) || object.GetNamespace() != string(meta.Namespace) ||
			string(object.GetUID()) != string(meta.UID) || object.GetResourceVersion() != string(meta.ResourceVersion) {
			t.Fatalf("peek %q: got %s", data, meta)
		}
	}
	if found < 150 {
		t.Errorf("only %d of 1000 documents had an identity", found)
	}
}

func TestPeek(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	for text, want := range map[string]bool{
		`{"metadata":{"name":"a"}}`:                                                           true,
		`{"metadata":{"uid":"u","name":"a","x":{"name":1}}}`:                                  true,
		`{"spec":{"metadata":{"name":"b"}},"metadata":{"name":"a"}}`:                          true,
		`{"metadata":{"name":""}}`:                                                            false,
		`{"metadata":{"name":"\u0061"}}`:                                                      false,
		`{"metadata":{"name":"é"}}`:                                                           false,
		`{"metadata":{"name":5}}`:                                                             false,
		`{"metadata":{"name":"a","name":"a"}}`:                                                false,
		`{"metadata":{"namespace":"n","resourceVersion":"1","name":"a","uid":"u","x":1}}`:     true,
		`{"metadata":{"namespace":"n","resourceVersion":"1","name":"a","uid":"u","uid":"v"}}`: false,
		`{"metadata":{"name":"a"`:                                                             false,
		`{"metadata":["name","a"]}`:                                                           false,
		`{"metadata":null}`:                                                                   false,
		`{}`:                                                                                  false,
		``:                                                                                    false,
		`{"metadata"`:                                                                         false,
	} {
		meta, ok := d.Peek([]byte(text))
		if ok != want || ok && string(meta.Name) != "a" {
			t.Errorf("peek %s: got %s, %v", text, meta, ok)
		}
	}
	pod := podDocs(t, 1)[0]
	if n := testing.AllocsPerRun(100, func() { d.Peek(pod) }); n != 0 {
		t.Errorf("peek allocates %v times", n)
	}
}
