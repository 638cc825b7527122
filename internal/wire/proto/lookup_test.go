package proto

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestTableIsBounded decodes objects that have little in common, and then ones that have everything in common.
func TestTableIsBounded(t *testing.T) {
	const limit = 1 << 20
	d, err := New[*corev1.Pod](wire.Options{MaxTableBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	highest := uint64(0)
	for i := range 10_000 {
		unique := fmt.Sprintf("unique-%d", i/2) // twice, so that it is stored
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: unique, Labels: map[string]string{"l": unique}, Annotations: map[string]string{unique: unique}},
			Spec:       corev1.PodSpec{NodeName: unique, Containers: []corev1.Container{{Name: unique, Args: []string{unique, "b"}}}},
		}
		decodeOne(t, d, pod)
		s := d.Stats()
		highest = max(highest, s.TableBytes)
	}
	if highest > limit+share.MaxDoor*4+limit/versionsShare || highest < limit/4 { // including the doorkeeper and the versions
		t.Errorf("the table took up to %d bytes of %d", highest, limit)
	}
	same := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "same", Labels: map[string]string{"a": "b"}}}
	nextGeneration(d.d.table)
	for range 20 {
		decodeOne(t, d, same)
	}
	nextGeneration(d.d.table)
	for range 20 {
		decodeOne(t, d, same)
	}
	if s := d.Stats(); s.TableEntries > 20 || s.TableBytes > 20*200+share.MaxDoor*4 {
		t.Errorf("after a long time without them, the table still holds %d entries, %d bytes", s.TableEntries, s.TableBytes)
	}
}

// nextGeneration makes the table sweep, as if many objects had been decoded.
func nextGeneration(t *table) {
	for before := t.Generation(); t.Generation() == before; {
		t.Decoded()
	}
}

func decodeOne(t *testing.T, d *Decoder[*corev1.Pod], pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Decode(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTableAgainstModel compares find and add with a Go map.
func TestTableAgainstModel(t *testing.T) {
	table, s := newTable(1<<20), newSite(noField, 0, &sharing)
	model, numbers := map[string]unsafe.Pointer{}, layouts{}.of(reflect.TypeFor[int64]())
	for i := range 50_000 {
		s.rate.Mode = share.Mode(i % 2)
		b := []byte(fmt.Sprint(i * 7919 % 5000))
		shape := uint32(1 + i%3)
		key := fmt.Sprint(shape, string(b))
		found, hash, action := table.find(s, shape, numbers, b)
		if found.value != nil && found.value != model[key] {
			t.Fatalf("%s: found something else", key)
		}
		if found.value == nil && action == decodeAndStore {
			model[key] = unsafe.Pointer(new(int64))
			table.add(hash, shape, numbers, b, model[key], 1, 8)
		}
	}
	if s.stats.Hits == 0 || table.Bytes() > 1<<20+share.MaxDoor*4 {
		t.Errorf("%d hits, %d bytes", s.stats.Hits, table.Bytes())
	}
}

// TestSharing checks what is shared and what is not, and that nobody can append into shared memory.
func TestSharing(t *testing.T) {
	pods := wiretest.Pods(2, 9)
	for _, alone := range []bool{false, true} {
		d, err := New[*corev1.Pod](wire.Options{NoSharing: alone})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			decodeOne(t, d, pods[0]) // a value seen once is not stored yet
		}
		a, b := decodeOne(t, d, pods[0]), decodeOne(t, d, pods[0])
		if unsafe.SliceData(a.Spec.Tolerations) == unsafe.SliceData(b.Spec.Tolerations) == alone {
			t.Errorf("alone %v: tolerations", alone)
		}
		if reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer() == alone {
			t.Errorf("alone %v: labels", alone)
		}
		if (a.Spec.SecurityContext == b.Spec.SecurityContext) == alone {
			t.Errorf("alone %v: securityContext", alone)
		}
		if (a.Spec.EnableServiceLinks == b.Spec.EnableServiceLinks) == alone {
			t.Errorf("alone %v: enableServiceLinks", alone)
		}
		checkCaps(t, reflect.ValueOf(a).Elem(), "pod")
	}
}

func TestAloneIsOwned(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{NoSharing: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range wiretest.Pods(100, 10) {
		a, b := decodeOne(t, d, pod), decodeOne(t, d, pod)
		seen := map[unsafe.Pointer]bool{}
		targets(reflect.ValueOf(a), seen)
		other := map[unsafe.Pointer]bool{}
		targets(reflect.ValueOf(b), other)
		for p := range seen {
			if other[p] {
				t.Fatal("two objects share memory that can be written to")
			}
		}
	}
}

// targets collects the memory that is writable through v. Strings are not; the Location of a time is a constant.
func targets(v reflect.Value, seen map[unsafe.Pointer]bool) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() || v.Kind() == reflect.Slice && v.Len() == 0 {
			return
		}
		seen[v.UnsafePointer()] = true
	}
	switch v.Kind() {
	case reflect.Pointer:
		targets(v.Elem(), seen)
	case reflect.Map:
		for _, e := range v.Seq2() {
			targets(e, seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			targets(v.Index(i), seen)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			targets(f, seen)
		}
	}
}

func checkCaps(t *testing.T, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			checkCaps(t, v.Elem(), path)
		}
	case reflect.Slice:
		if v.Len() != v.Cap() {
			t.Errorf("%s: length %d, capacity %d", path, v.Len(), v.Cap())
		}
		for i := range v.Len() {
			checkCaps(t, v.Index(i), path+"[]")
		}
	case reflect.Struct:
		if v.Type() == quantityType {
			return // the memory of a large number is up to big.Int
		}
		for sf, f := range v.Fields() {
			checkCaps(t, f, path+"."+sf.Name)
		}
	}
}

// TestStatsBesideDecode checks the counts, and that they may be read while objects are decoded.
func TestStatsBesideDecode(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inputs := encodedPods(t, 500, 11)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			d.Stats()
			runtime.Gosched()
		}
	}()
	size := 0
	for _, data := range inputs {
		if _, err := d.Decode(data, nil); err != nil {
			t.Fatal(err)
		}
		size += len(data)
	}
	<-done
	if _, err := d.Decode([]byte{0xff}, nil); err == nil || !strings.Contains(err.Error(), "decoding v1.Pod") {
		t.Errorf("broken data: got %v", err)
	}
	s := d.Stats()
	if s.Objects != 500 || s.Bytes != uint64(size) || s.Hits == 0 || s.Hits > s.Lookups || s.SharedBytes == 0 {
		t.Errorf("got %d objects, %d bytes, %d of %d found", s.Objects, s.Bytes, s.Hits, s.Lookups)
	}
	if f := s.Fields["spec.tolerations"]; f.Hits < 400 || f.SharedBytes == 0 {
		t.Errorf("spec.tolerations: %+v", f)
	}
}

// TestLight holds the decoder to its purpose: see the benchmarks for the numbers.
func TestLight(t *testing.T) {
	inputs := encodedPods(t, 2000, 12)
	bytes, objects, allocs := liveHeap(t, decodings[1], inputs)
	wantBytes, wantObjects, wantAllocs := liveHeap(t, decodings[0], inputs)
	t.Logf("a pod takes %.0f bytes, %.1f objects, %.1f allocations; with the generated decoder %.0f, %.1f, %.1f",
		bytes, objects, allocs, wantBytes, wantObjects, wantAllocs)
	if bytes > 0.5*wantBytes || objects > 0.15*wantObjects || allocs > 0.2*wantAllocs {
		t.Error("that is too much")
	}
}

// TestClasses: equal values are in one class, and most others in another, however short.
func TestClasses(t *testing.T) {
	seen := map[uint64]bool{}
	for n := range 20 {
		for c := range byte(20) {
			b := bytes.Repeat([]byte{'a' + c}, n)
			if class(b) != class(bytes.Clone(b)) || class(b) >= share.Classes {
				t.Errorf("%q is in class %d and %d", b, class(b), class(bytes.Clone(b)))
			}
			seen[class(b)] = true
		}
	}
	if len(seen) < share.Classes/2 {
		t.Errorf("%d classes", len(seen))
	}
}

// TestTableForgets entries that are not found again among many objects. Versions with a known predecessor do not count.
func TestTableForgets(t *testing.T) {
	d := newPodDecoder(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	before := d.d.table.Generation()
	for _, old := range []*corev1.Pod{pod, nil} {
		for range sweepEvery {
			if _, err := d.Decoder.Decode(data, old); err != nil {
				t.Fatal(err)
			}
		}
		if swept := d.d.table.Generation() != before; swept != (old == nil) {
			t.Errorf("after many objects with a version before, %t, the table is swept: %t", old != nil, swept)
		}
	}
}

// TestWhatIsInUseStays in the table, however many objects are decoded, if it is found again from time to time.
func TestWhatIsInUseStays(t *testing.T) {
	d := newPodDecoder(t)
	n := 0
	decode := func() *corev1.Pod {
		n++
		class := "a class"
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint(n)), Labels: map[string]string{"a": "label"}}}
		p.Spec = corev1.PodSpec{NodeName: "a node", Hostname: fmt.Sprint("h", n), RuntimeClassName: &class, Tolerations: []corev1.Toleration{{Key: "a key"}}}
		return decodePod(t, d, p)
	}
	var first *corev1.Pod
	for range 10 {
		first = decode()
	}
	for i := range 5 {
		nextGeneration(d.d.table)
		p := decode()
		if unsafe.StringData(p.Spec.NodeName) != unsafe.StringData(first.Spec.NodeName) || p.Spec.RuntimeClassName != first.Spec.RuntimeClassName ||
			&p.Spec.Tolerations[0] != &first.Spec.Tolerations[0] || reflect.ValueOf(p.Labels).Pointer() != reflect.ValueOf(first.Labels).Pointer() {
			t.Fatalf("generation %d: something is stored again", i)
		}
	}
}
