package proto

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

// spending is the model of the memory that decoding a value takes of its object's allowance.
type spending struct {
	stored bool // in the table, in a map or in an object that shares nothing: strings are not deferred
	kept   bool // strings point into the encoding
	shares bool // small numbers are shared
	times  int  // deferred ones
}

func (s *spending) bytes(n int) int {
	if s.kept || !s.stored && n < maxDeferred {
		return 0
	}
	return n
}

func (s *spending) of(v reflect.Value) (n int) {
	switch v.Type() {
	case timeType, microTimeType, quantityType:
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return s.bytes(v.Len())
	case reflect.Struct:
		for _, f := range v.Fields() {
			n += s.of(f)
		}
	case reflect.Pointer:
		n = s.pointer(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return s.bytes(v.Len())
		}
		n = v.Len() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += s.of(v.Index(i))
		}
	case reflect.Map:
		if v.Len() > 0 {
			n = s.mapping(v)
		}
	}
	return n
}

func (s *spending) pointer(v reflect.Value) int {
	switch elem := v.Type().Elem(); {
	case v.IsNil():
		return 0
	case isTimeShaped(elem) && !s.stored && s.times < maxTimes:
		s.times++
		return 0
	case s.shares && elem.Kind() == reflect.Bool || s.shares && v.Elem().CanInt() && uint64(v.Elem().Int()) < maxSmall:
		return 0
	default:
		return int(elem.Size()) + s.of(v.Elem())
	}
}

func (s *spending) mapping(v reflect.Value) int {
	n := 48 + v.Len()*(int(v.Type().Elem().Size())+16+1)
	before := s.stored
	s.stored = true
	for key, value := range v.Seq2() {
		n += s.of(key) + s.of(value)
	}
	s.stored = before
	return n
}

// TestMemoryIsCounted compares the memory spent on decoding with a model, for objects of all types.
func TestMemoryIsCounted(t *testing.T) {
	seed := testseed.Seed(t)
	for i, typ := range registered() {
		if ownMethods(typ.Elem(), map[reflect.Type]bool{}) {
			continue
		}
		inputs := encodings(t, newFiller(int64(seed>>1)+int64(i)), typ, 1)
		for _, keeps := range []bool{false, true} {
			d, err := newUntyped(typ, wire.Options{NoSharing: true, KeepBytes: keeps})
			if err != nil {
				t.Fatal(err)
			}
			for _, data := range inputs {
				got, err := decodeAny(d, data)
				if err != nil {
					t.Fatal(err)
				}
				s := spending{stored: true, kept: keeps && len(data) <= maxKept} // NoSharing defers nothing
				if want, spent := s.of(reflect.ValueOf(got).Elem()), wire.Allowance(len(data))-d.allowance; spent != want {
					t.Fatalf("%s, keeping its bytes %t: %d bytes are counted, want %d", typ, keeps, spent, want)
				}
			}
		}
	}
}

// ownMethods reports whether t has parts that their own method decodes, whose memory is unknown.
func ownMethods(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return ownMethods(t.Elem(), seen)
	case reflect.Struct:
		if kindOf(t) == foreignKind {
			return true
		}
		if t == timeType || t == microTimeType || t == quantityType {
			return false
		}
		for f := range t.Fields() {
			if ownMethods(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// TestSharedPartsCount with their memory, each once, whatever they are in.
func TestSharedPartsCount(t *testing.T) {
	const entry = 72
	pod := sharedPod()
	pod.ManagedFields, pod.Status = nil, corev1.PodStatus{}
	pod.Annotations = map[string]string{"before": "what is shared"}
	pod.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "1024"}}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}}}},
	}}}
	for _, tt := range []struct {
		paths []string
		parts func(*corev1.Pod) []any // that are in no others
	}{
		{[]string{"metadata.labels"}, func(p *corev1.Pod) []any { return []any{p.Labels} }},
		{[]string{"spec.securityContext"}, func(p *corev1.Pod) []any { return []any{p.Spec.SecurityContext} }},
		{[]string{"spec.securityContext", "spec.securityContext.sysctls"}, func(p *corev1.Pod) []any { return []any{p.Spec.SecurityContext} }},
		{[]string{"spec.affinity", "spec.affinity.nodeAffinity"}, func(p *corev1.Pod) []any { return []any{p.Spec.Affinity} }},
		{[]string{"metadata.ownerReferences", "spec.tolerations"}, func(p *corev1.Pod) []any { return []any{p.OwnerReferences, p.Spec.Tolerations} }},
		{[]string{"spec.containers.resources.limits", "spec.nodeSelector"}, func(p *corev1.Pod) []any {
			return []any{p.Spec.Containers[0].Resources.Limits, p.Spec.NodeSelector}
		}},
		{[]string{"spec.containers", "spec.containers.resources.limits", "spec.containers.env"}, func(p *corev1.Pod) []any { return []any{p.Spec.Containers} }},
	} {
		d := newPodDecoderWith(t, wire.Options{KeepBytes: true}) // so that strings are not looked up
		pod.UID = "u"
		decodePod(t, d, pod) // so that sites exist
		for _, s := range d.d.compiler.sites {
			if s.rate.Mode = share.Sampling; slices.Contains(tt.paths, s.path()) {
				s.rate.Mode = share.Direct
			}
		}
		before, entries := d.d.table.Bytes(), d.d.table.Len()
		pod.UID = "another"
		got := decodePod(t, d, pod)
		if d.d.noDefer != 0 || d.d.tableDepth != 0 || d.d.depth != 0 {
			t.Errorf("%v: %d, %d and %d are left of what was begun", tt.paths, d.d.noDefer, d.d.tableDepth, d.d.depth)
		}
		s := spending{stored: true, shares: true}
		want := len(tt.paths) * entry
		for _, part := range tt.parts(got) {
			want += s.of(reflect.ValueOf(part))
		}
		if n, took := d.d.table.Len()-entries, int(d.d.table.Bytes()-before); n != len(tt.paths) || took != want {
			t.Errorf("%v: %d entries more, of %d bytes, want %d", tt.paths, n, took, want)
		}
	}
}

// TestManyTimes: some of the times that an object points to share an array, the others do not.
func TestManyTimes(t *testing.T) {
	typ := reflect.TypeFor[*corev1.Pod]()
	for _, n := range []int{1, maxTimes - 1, maxTimes, maxTimes + 1, 2*maxTimes + 1} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(fmt.Sprint(n))}}
		for i := range n {
			at := metav1.NewTime(time.Unix(int64(1e9+i), 0))
			p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: fmt.Sprint("m", i), Time: &at})
		}
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range fuzzDecoders(t, typ) {
			for range 2 {
				if err := sameVerdict(d, typ, data); err != nil {
					t.Errorf("%d times: %v", n, err)
				}
			}
		}
	}
}

// TestTimesOfNoObject: a time that is not encoded is zero, whatever the previous object had.
func TestTimesOfNoObject(t *testing.T) {
	d := newPodDecoder(t)
	for i := range 20 { // most arenas are reused
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(fmt.Sprint(i))}}
		p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 3)
		for k := range p.Status.ContainerStatuses {
			p.Status.ContainerStatuses[k].State.Running = &corev1.ContainerStateRunning{}
			if i%2 == 0 {
				p.Status.ContainerStatuses[k].State.Running.StartedAt = metav1.NewTime(time.Unix(int64(1e9+i*10+k), 0))
			}
		}
		if err := same(decodePod(t, d, p), p); err != nil {
			t.Error(err)
		}
	}
}

// TestPointersToNumbers: pointers to small numbers are shared, and have the right values.
func TestPointersToNumbers(t *testing.T) {
	d := newPodDecoder(t)
	for _, n := range []int64{0, 1, smallPage - 1, smallPage, 100, maxSmall - 1, maxSmall, maxSmall + 1, -1, 1<<31 - 1, -1 << 31} {
		short, yes := int32(n), n%2 == 0
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds, p.Spec.HostUsers = &short, &n, &yes
		var last *corev1.Pod
		for i := range 2 {
			p.UID = types.UID(fmt.Sprint(n, i))
			got := decodePod(t, d, p)
			if err := same(got, p); err != nil {
				t.Error(err)
			}
			small := uint64(n) < maxSmall
			if s := got.Spec; last != nil && ((s.Priority == last.Spec.Priority) != small || (s.TerminationGracePeriodSeconds == last.Spec.TerminationGracePeriodSeconds) != small || s.HostUsers != last.Spec.HostUsers) {
				t.Errorf("%d: what is shared", n)
			}
			last = got
		}
	}
	if d.Stats().Corrupted != 0 {
		t.Error("numbers were taken for others")
	}
}

// TestStatsOfMemory counts the memory of versions and plans.
func TestStatsOfMemory(t *testing.T) {
	const n = 30
	stats := map[bool]wire.Stats{}
	for _, noVersions := range []bool{false, true} {
		d, err := New[*corev1.Pod](wire.Options{NoVersions: noVersions})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			decodeOne(t, d, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("u", i))}})
		}
		stats[noVersions] = d.Stats()
		decodeOne(t, d, sharedPod())
		if before, after := stats[noVersions].PlanBytes, d.Stats().PlanBytes; before == 0 || after < before+50*siteBytes {
			t.Errorf("plans take %d bytes, with more fields %d", before, after)
		}
	}
	if with, without := stats[false].TableBytes, stats[true].TableBytes; with != without+n*versionBytes {
		t.Errorf("tables take %d bytes with %d versions, %d without", with, n, without)
	}
	d, err := New[*corev1.Pod](wire.Options{NoSharing: true})
	if err != nil {
		t.Fatal(err)
	}
	decodeOne(t, d, sharedPod())
	if s := d.Stats(); s.TableBytes+s.TableEntries+s.Lookups != 0 || s.PlanBytes == 0 || s.Objects != 1 {
		t.Errorf("without sharing: %+v", s)
	}
}

// TestSitesCount with the memory of what they remember.
func TestSitesCount(t *testing.T) {
	s := newSite(noField, 0, &sharing)
	if s.bytes() != 0 {
		t.Errorf("a new site takes %d bytes", s.bytes())
	}
	s.remember(1, make([]byte, 1000), found{})
	last := s.bytes()
	s.stats.Lookups = fewLookups
	s.rememberString("text")
	if all := s.bytes(); last < 1000 || last > 2000 || all != last+recentStrings*uint64(unsafe.Sizeof("")) {
		t.Errorf("a value of 1000 bytes takes %d, with strings %d", last, all)
	}
	s.remember(1, make([]byte, lastBytes+1), found{n: 1})
	if s.last.n != 0 {
		t.Error("a large value is remembered")
	}
	var quantities quantities
	for i := range 3 * maxQuantities {
		if _, err := quantities.parse([]byte(fmt.Sprint(i))); err != nil || len(quantities) > maxQuantities {
			t.Fatalf("%d quantities are kept: %v", len(quantities), err)
		}
	}
	long := fmt.Sprintf("%0*d", maxQuantityText+1, 7)
	if q, err := quantities.parse([]byte(long)); err != nil || q.Cmp(resource.MustParse("7")) != 0 {
		t.Errorf("%s: %v, %v", long, &q, err)
	}
	if _, ok := quantities[long]; ok {
		t.Error("a long text is kept")
	}
}

// TestScratchIsGivenBack: the buffers for a huge object are not kept.
func TestScratchIsGivenBack(t *testing.T) {
	var texts [keptBytes / 16]string
	var a arena
	for i := range texts {
		a.text(&texts[i], []byte("x"))
	}
	if a.reset(); cap(a.pending) > keptBytes/32 {
		t.Errorf("room for %d strings is kept", cap(a.pending))
	}
	var raw []byte
	a.raw(&raw, make([]byte, keptBytes+1))
	if a.reset(); cap(a.bytes) > keptBytes {
		t.Errorf("room for %d bytes is kept", cap(a.bytes))
	}
	a.text(&texts[0], []byte("small"))
	if a.reset(); cap(a.bytes) == 0 || cap(a.pending) == 0 || len(a.bytes)+len(a.pending) > 0 {
		t.Error("no room is kept, or something is left in it")
	}
	items := slices.Concat(messageField(listItems, make([]byte, 2*keptBytes)), messageField(listItems, []byte("a")))
	r := NewListReader(bufio.NewReader(bytes.NewReader(append([]byte(magic), messageField(unknownRaw, items)...))), 0)
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.buf) > keptBytes {
		t.Errorf("room for an item of %d bytes is kept", cap(r.buf))
	}
}

// TestOwnMemory: settling takes the memory of the deferred strings and times, and puts everything in its place.
func TestOwnMemory(t *testing.T) {
	var a arena
	var text string
	var raw []byte
	var times [3]unsafe.Pointer
	for range 2 {
		a.text(&text, []byte("text"))
		a.raw(&raw, []byte("bytes"))
		for i := range times {
			*(*time.Time)(a.time(&times[i])) = time.Unix(int64(i), 0)
		}
		if size, want := a.settle(), len("textbytes")+3*int(unsafe.Sizeof(time.Time{})); size != want {
			t.Errorf("%d bytes, want %d", size, want)
		}
		a.reset()
		for i := range times {
			if got := *(*time.Time)(times[i]); !got.Equal(time.Unix(int64(i), 0)) {
				t.Errorf("time %d is %v", i, got)
			}
		}
		if text != "text" || string(raw) != "bytes" || cap(raw) != len(raw) || a.settle() != 0 {
			t.Errorf("%q, %q", text, raw)
		}
	}
}
