package intern_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire/intern"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// odd has all kinds of fields.
type odd struct {
	Strings   []string
	Named     []name
	Bytes     []byte
	Empty     []string
	Maps      map[name]map[string][]int
	Of        map[string]*odd
	Array     [3]*string
	Pair      [2]pair
	Next      *odd
	Numbers   []float64
	Any       any
	Extension runtime.RawExtension
	Own       *own
	Owns      []own
	Text      decoded
	ByNumber  map[int]string
	Pointers  **pair
}

type name string

type pair struct {
	A bool
	B string
	C int64
}

// own has state besides its contents.
type own struct {
	_    sync.Mutex
	Name string
}

// decoded decodes itself.
type decoded struct{ Value []string }

func (d *decoded) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &d.Value) }

// holder is like odd, without what cannot be copied.
type holder struct {
	metav1.ObjectMeta
	Pod   corev1.PodSpec
	Odd   *comparable
	Kinds map[string]*comparable
}

type comparable struct {
	Strings  []string
	Named    []name
	Bytes    []byte
	Maps     map[name]map[string][]int
	Of       map[string]*comparable
	Array    [3]*string
	Pair     [2]pair
	Numbers  []float64
	ByNumber map[int]string
	Pointers **pair
}

// TestSharedValuesEqualTheirOriginals, whatever is in them, and originals are left alone.
func TestSharedValuesEqualTheirOriginals(t *testing.T) {
	seed := testseed.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	fill := randfill.NewWithSeed(int64(seed)).NilChance(0.3).NumElements(0, 3).MaxDepth(9)
	n := intern.New(1 << 20)
	var seen []*holder
	var want []*holder
	for i := range 400 {
		h := new(holder)
		if i > 10 && rng.IntN(2) == 0 { // equal to an earlier one, or nearly so
			*h = *deepCopy(t, want[rng.IntN(len(want))])
			h.Name = fmt.Sprint(i)
		} else {
			fill.Fill(h)
		}
		original := deepCopy(t, h)
		var previous reflect.Value
		if len(seen) > 0 && rng.IntN(2) == 0 {
			previous = reflect.ValueOf(seen[rng.IntN(len(seen))])
		}
		got := h
		if rng.IntN(2) == 0 {
			got = n.Copy(reflect.ValueOf(h), previous).Interface().(*holder)
			if !reflect.DeepEqual(h, original) {
				t.Fatalf("seed %d, %d: the original was changed", seed, i)
			}
		} else {
			n.Share(reflect.ValueOf(h), previous)
		}
		if !reflect.DeepEqual(got, original) {
			t.Fatalf("seed %d, %d: got other contents", seed, i)
		}
		seen, want = append(seen, got), append(want, original)
	}
	for i := range seen {
		if !reflect.DeepEqual(seen[i], want[i]) {
			t.Fatalf("seed %d, %d: the contents were changed later", seed, i)
		}
	}
	if stats := n.Stats(); stats.Hits == 0 || stats.Corrupted != 0 {
		t.Errorf("seed %d: %+v", seed, stats)
	}
}

// deepCopy copies by reflection, independently of the package.
func deepCopy[T any](t *testing.T, v *T) *T {
	t.Helper()
	out := reflect.New(reflect.TypeFor[T]())
	clone(out.Elem(), reflect.ValueOf(v).Elem())
	return out.Interface().(*T)
}

func clone(to, from reflect.Value) {
	to.Set(from)
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if to.Field(i).CanSet() {
				clone(to.Field(i), from.Field(i))
			}
		}
	case reflect.Array:
		for i := range from.Len() {
			clone(to.Index(i), from.Index(i))
		}
	case reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			clone(to.Index(i), from.Index(i))
		}
	case reflect.Pointer:
		if from.IsNil() {
			return
		}
		to.Set(reflect.New(from.Type().Elem()))
		clone(to.Elem(), from.Elem())
	case reflect.Map:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMap(from.Type()))
		for entries := from.MapRange(); entries.Next(); {
			value := reflect.New(from.Type().Elem()).Elem()
			clone(value, entries.Value())
			to.SetMapIndex(entries.Key(), value)
		}
	}
}

// TestCopiesHaveNoMemoryInCommon with the originals that could be written to.
func TestCopiesHaveNoMemoryInCommon(t *testing.T) {
	n := intern.New(0)
	for _, p := range wiretest.Pods(200, 1) {
		want := p.DeepCopy()
		got := n.Copy(reflect.ValueOf(p), reflect.Value{}).Interface().(*corev1.Pod)
		p.Labels["app"], p.Spec.Containers[0].Name = "written", "written"
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].Reason = "written"
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: a write to the original reached the copy", want.Name)
		}
	}
}

// TestWhatHasStateOfItsOwnStaysAsItIs: it is neither copied nor shared.
func TestWhatHasStateOfItsOwnStaysAsItIs(t *testing.T) {
	type outer struct {
		Inner   *own
		Inners  []own
		Any     any
		Decoded *decoded
		Ext     runtime.RawExtension
		ByName  map[string]own
		Labels  map[string]string
	}
	if !intern.CanShare(reflect.TypeFor[outer]()) || intern.CanShare(reflect.TypeFor[own]()) || intern.CanShare(reflect.TypeFor[odd]()) {
		t.Error("got other types that can be copied")
	}
	n := intern.New(0)
	var got []*outer
	for range 100 {
		o := &outer{
			Inner: &own{Name: "a"}, Inners: []own{{Name: "b"}}, Any: map[string]any{"a": "b"}, Decoded: &decoded{[]string{"x"}},
			Ext: runtime.RawExtension{Raw: []byte(`{"a":1}`)}, ByName: map[string]own{"a": {Name: "c"}}, Labels: map[string]string{"app": "web"},
		}
		c := n.Copy(reflect.ValueOf(o), reflect.Value{}).Interface().(*outer)
		if c.Inner != o.Inner || &c.Inners[0] != &o.Inners[0] || c.Decoded != o.Decoded || reflect.ValueOf(c.ByName).Pointer() != reflect.ValueOf(o.ByName).Pointer() {
			t.Fatal("what has state of its own was copied")
		}
		if !reflect.DeepEqual(o, c) {
			t.Fatal("got other contents")
		}
		got = append(got, c)
	}
	first, last := got[98], got[99]
	if first.Inner == last.Inner || first.Decoded == last.Decoded || &first.Ext.Raw[0] != &last.Ext.Raw[0] {
		t.Error("got other parts shared")
	}
	if reflect.ValueOf(first.Labels).Pointer() != reflect.ValueOf(last.Labels).Pointer() {
		t.Error("equal labels are not shared")
	}
}

// TestWrittenPartsAreNotSharedAgain, and are named.
func TestWrittenPartsAreNotSharedAgain(t *testing.T) {
	n := intern.New(0)
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	}
	share := func() *corev1.Pod { p := pod(); n.Share(reflect.ValueOf(p), reflect.Value{}); return p }
	share()
	second := share()
	second.Labels["app"] = "written"
	second.Spec.Containers[0].Name = "written"
	if third := share(); !reflect.DeepEqual(third, pod()) {
		t.Errorf("got %v", third)
	}
	if stray := n.TakeStray(); !reflect.DeepEqual(stray, []string{"metadata.labels", "spec.containers"}) {
		t.Errorf("got %q", stray)
	}
}

// TestSlicesHaveNoSpareRoom: an append to a shared slice must not reach others, and spare room takes memory.
func TestSlicesHaveNoSpareRoom(t *testing.T) {
	n := intern.New(0)
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: append(make([]corev1.Container, 0, 8), corev1.Container{Name: "a"})}}
	n.Share(reflect.ValueOf(p), reflect.Value{})
	if cap(p.Spec.Containers) != 1 {
		t.Errorf("got room for %d containers", cap(p.Spec.Containers))
	}
}

// BenchmarkCopy compares copying a pod that a client decoded with decoding one.
func BenchmarkCopy(b *testing.B) {
	pods := wiretest.Pods(1000, 1)
	data := make([][]byte, len(pods))
	for i, p := range pods {
		data[i], _ = p.Marshal()
	}
	b.Run("copy", func(b *testing.B) {
		n, i := intern.New(0), 0
		for b.Loop() {
			n.Copy(reflect.ValueOf(pods[i%len(pods)]), reflect.Value{})
			i++
		}
	})
	b.Run("deep copy", func(b *testing.B) {
		i := 0
		for b.Loop() {
			pods[i%len(pods)].DeepCopy()
			i++
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if err := new(corev1.Pod).Unmarshal(data[i%len(data)]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}
