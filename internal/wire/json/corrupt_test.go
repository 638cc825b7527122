package json

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestStrayWritesDoNotSpread makes forbidden writes somewhere inside decoded objects. Objects
// decoded in the next batch must not show them.
func TestStrayWritesDoNotSpread(t *testing.T) {
	seed := testseed.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	corrupted := 0
	d := newDecoder(t, wire.Options{OnStrayWrite: func(field string) {
		if corrupted++; field == "" {
			t.Error("the name is empty")
		}
	}})
	docs := wiretest.CustomResources(50, seed)
	for i := range 3000 {
		data := docs[rng.IntN(len(docs))]
		d.Recheck()
		got, err := d.Decode(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := upstream(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Object, want.Object) {
			t.Fatalf("seed %d: object %d differs:\n%v\n%v", seed, i, got.Object, want.Object)
		}
		if rng.IntN(3) == 0 {
			writeInto(rng, got.Object)
		}
	}
	if corrupted == 0 || d.Stats().Corrupted != uint64(corrupted) {
		t.Errorf("%d corrupt parts were reported, %+v", corrupted, d.Stats())
	}
}

// writeInto changes something in v, in place.
func writeInto(rng *rand.Rand, v any) {
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range v {
				if !yield(name) {
					return
				}
			}
		})
		if len(names) == 0 || rng.IntN(4) == 0 {
			v["spoilt"] = "spoilt"
			return
		}
		name := names[rng.IntN(len(names))]
		switch v[name].(type) {
		case map[string]any, []any:
			writeInto(rng, v[name])
		default:
			if v[name] = "spoilt"; rng.IntN(2) == 0 {
				delete(v, name)
			}
		}
	case []any:
		if len(v) == 0 {
			return
		}
		k := rng.IntN(len(v))
		switch v[k].(type) {
		case map[string]any, []any:
			writeInto(rng, v[k])
		default:
			v[k] = "spoilt"
		}
	}
}

// TestCorruptPartIsReported names the part that somebody has written to, once.
func TestCorruptPartIsReported(t *testing.T) {
	for field, write := range map[string]func(map[string]any){
		"spec.selector": func(spec map[string]any) { spec["selector"].(map[string]any)["app"] = "spoilt" },
		"spec.empty":    func(spec map[string]any) { spec["empty"].(map[string]any)["app"] = "spoilt" },
		"spec.parts":    func(spec map[string]any) { spec["parts"].([]any)[1] = "spoilt" },
		"spec.template.spec.limits": func(spec map[string]any) {
			delete(spec["template"].(map[string]any)["spec"].(map[string]any)["limits"].(map[string]any), "cpu")
		},
	} {
		t.Run(field, func(t *testing.T) {
			var got []string
			d := newDecoder(t, wire.Options{OnStrayWrite: func(field string) { got = append(got, field) }})
			n := 0
			next := func() map[string]any {
				n++
				text := fmt.Sprintf(`{"kind":"K","apiVersion":"v1","spec":{"n":%d,"selector":{"app":"a"},"empty":{},"parts":["a","b"],`+
					`"template":{"name":"t%d","spec":{"n":%d,"limits":{"cpu":"1","memory":"2"}}}}}`, n, n, n)
				d.Recheck()
				o, err := d.Decode([]byte(text), nil)
				if err != nil {
					t.Fatal(err)
				}
				want, err := upstream([]byte(text))
				if err != nil || !reflect.DeepEqual(o.Object, want.Object) {
					t.Fatalf("got %v, want %v", o.Object, want)
				}
				return o.Object["spec"].(map[string]any)
			}
			var last map[string]any
			for range 20 {
				last = next()
			}
			write(last)
			for range 20 {
				next()
			}
			if !slices.Equal(got, []string{field}) {
				t.Errorf("reported were %q", got)
			}
		})
	}
}

// TestCircles puts maps into themselves.
func TestCircles(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	const text = `{"kind":"K","spec":{"a":{"b":{"c":1,"d":2}},"e":[{"f":1}]}}`
	for range 20 {
		d.Recheck()
		o, err := d.Decode([]byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := upstream([]byte(text))
		if err != nil || !reflect.DeepEqual(o.Object, want.Object) {
			t.Fatalf("got %v", o.Object)
		}
		spec := o.Object["spec"].(map[string]any)
		a, e := spec["a"].(map[string]any), spec["e"].([]any)
		a["b"], a["c"], e[0] = a, a, e
	}
}

// TestExpansionIsBounded decodes short texts that would take much memory.
func TestExpansionIsBounded(t *testing.T) {
	const n = 1 << 20
	repeat := func(part string) []byte {
		return []byte(`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[` + strings.Repeat(part+",", n) + part + `]}}`)
	}
	typed, err := NewTyped[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, decode := range map[string]func() (int, error){
		"typed, empty": func() (int, error) { data := repeat("{}"); _, err := typed.Decode(data, nil); return len(data), err },
		"typed, null":  func() (int, error) { data := repeat("null"); _, err := typed.Decode(data, nil); return len(data), err },
		"maps, owned": func() (int, error) {
			data := repeat(`{"":0}`)
			_, err := newDecoder(t, wire.Options{NoSharing: true}).Decode(data, nil)
			return len(data), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			size, err := decode()
			runtime.ReadMemStats(&after)
			if _, ok := errors.AsType[*wire.ExpansionError](err); !ok && err != nil || strings.HasPrefix(name, "typed") && !ok {
				t.Errorf("got %v", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 3*uint64(wire.Allowance(size)) {
				t.Errorf("%d bytes took %d", size, took)
			}
		})
	}
	broken := repeat("{}")
	if _, err := typed.Decode(broken[:len(broken)-1], nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a document that is cut off: %v", err)
	}
	if kept := cap(typed.cut.tape.nodes); kept > maxKeptNodes {
		t.Errorf("%d nodes are kept", kept)
	}
	quotes := fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"a":%q}}}`, strings.Repeat("{", n))
	if _, err := typed.Decode([]byte(quotes), nil); err != nil {
		t.Errorf("braces in a string: %v", err)
	}
}

// grumpy is a type with a method that panics.
type grumpy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              grumpySpec `json:"spec"`
}

type grumpySpec struct{}

func (*grumpySpec) UnmarshalJSON([]byte) error { panic("not today") }

func (g *grumpy) DeepCopyObject() kruntime.Object { return g }

func TestPanicIsAnError(t *testing.T) {
	d, err := NewTyped[*grumpy](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decode([]byte(`{"spec":{}}`), nil)
	if e, ok := errors.AsType[*wire.PanicError](err); !ok || e.Value != "not today" || !strings.Contains(string(e.Stack), "grumpySpec") {
		t.Errorf("got %v", err)
	}
	if _, err := d.Decode([]byte(`{}`), nil); err != nil {
		t.Errorf("after the panic: %v", err)
	}

	u := newDecoder(t, wire.Options{})
	u.build.fields.root = nil
	if _, err := u.Decode([]byte(`{"kind":"K"}`), nil); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("got %v", err)
	}
	if _, err := u.Decode([]byte(`{"kind":"K"}`), nil); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}
