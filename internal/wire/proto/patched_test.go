package proto

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/patch"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// patchChecker applies patches to decoded objects of one type. Its decoder is reused for all patches.
type patchChecker struct {
	typ   reflect.Type
	alone *decoder // decodes the expected results
	AsInterface[generated]
	// patches are valid ones, by their base.
	patches map[string][][]byte
}

func newPatchChecker(t testing.TB, typ reflect.Type, opts wire.Options) *patchChecker {
	t.Helper()
	d, err := NewAsInterface[generated](typ, opts)
	must(t, err)
	alone, err := newDecoder(typ, wire.Options{NoSharing: true, Trim: opts.Trim})
	must(t, err)
	return &patchChecker{typ, alone, d, map[string][][]byte{}}
}

// fresh decodes data with nothing shared.
func (c *patchChecker) fresh(data []byte) (generated, error) {
	p, err := c.alone.decode(bytes.Clone(data), nil, nil)
	if err != nil {
		return nil, err
	}
	return reflect.NewAt(c.typ.Elem(), p).Interface().(generated), nil
}

// patched applies p, a patch from base to data, to the decoded base. The result must equal data
// decoded, and the base must not change. The result is nil if there is an error.
func (c *patchChecker) patched(t testing.TB, base, data, p []byte) generated {
	t.Helper()
	was, err := c.fresh(base)
	if err != nil {
		return nil
	}
	b, err := c.DecodeBase(bytes.Clone(base))
	if err != nil { // it is irregular; a source decodes it all the same
		b, err = c.fresh(base)
		must(t, err)
	}
	got, err := c.DecodePatch(b, p)
	if !reflect.DeepEqual(b, was) {
		t.Fatalf("patch %x\nof %x\nhas written to the base, which became\n%+v", p, base, b)
	}
	if err != nil {
		if panicked := (*wire.PanicError)(nil); errors.As(err, &panicked) {
			t.Fatalf("%s\n%s", err, panicked.Stack)
		}
		return nil
	}
	if want, err := c.fresh(data); err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("patch %x\nof   %x\nto   %x\ngot  %+v\nwant %+v", p, base, data, got, want)
	}
	if known := c.patches[string(base)]; len(known) < 4 {
		c.patches[string(base)] = append(known, bytes.Clone(p))
	}
	return got
}

// repatched applies p to the base as patched does, and again given objects that other patches made
// from the base: the results must be equal, and none of the others may change.
func (c *patchChecker) repatched(t testing.TB, base, data, p []byte) generated {
	t.Helper()
	want := c.patched(t, base, data, p)
	for _, otherPatch := range c.patches[string(base)] {
		b, err := c.DecodeBase(bytes.Clone(base))
		if err != nil {
			b, err = c.fresh(base)
			must(t, err)
		}
		other, err := c.DecodePatch(b, otherPatch)
		must(t, err)
		was, err := c.DecodePatch(b, otherPatch)
		must(t, err)
		got, err := c.DecodeNextPatch(b, p, other, otherPatch)
		if panicked := (*wire.PanicError)(nil); errors.As(err, &panicked) {
			t.Fatalf("%s\n%s", err, panicked.Stack)
		}
		if want != nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("patch %x\nbeside %x\nof %x: %v\ngot  %+v\nwant %+v", p, otherPatch, base, err, got, want)
		}
		if now, err := c.DecodePatch(b, otherPatch); err != nil || !reflect.DeepEqual(other, was) || !reflect.DeepEqual(now, was) {
			t.Fatalf("patch %x\nbeside %x\nof %x\nhas written to one of these: %v", p, otherPatch, base, err)
		}
	}
	return want
}

// TestDecodePatch compares patched objects of several types with decoded ones. At the end no object may
// have changed, and the decoder still works.
func TestDecodePatch(t *testing.T) {
	rng := testseed.Rand(t)
	for _, typ := range patchedTypes {
		for _, opts := range []wire.Options{keeping, {}} {
			c, differ := newPatchChecker(t, typ, opts), newDiffer(t, typ)
			all := neighbors(t, rng, typ, 3)
			var kept, want []generated
			for range 20 {
				base, data := pick(rng, all), pick(rng, all)
				got := c.repatched(t, base, data, checkDiff(t, differ, base, data))
				if got == nil {
					t.Fatalf("%s: the patch does not fit", typ)
				}
				checkCaps(t, reflect.ValueOf(got).Elem(), typ.String())
				w, err := oracle(typ, data)
				must(t, err)
				kept, want = append(kept, got), append(want, w)
				if odd := mutate(rng, base, all); rng.IntN(2) == 0 {
					base = odd
				} else {
					data = mutate(rng, data, all)
				}
				if p := checkDiff(t, differ, base, data); p != nil {
					c.repatched(t, base, data, p)
				}
				input := bytes.Clone(data)
				if got, err = c.Decode(input, nil); err == nil {
					w, err := c.fresh(data)
					must(t, err)
					clear(input) // it must have been copied
					kept, want = append(kept, got), append(want, w)
				}
			}
			for i := range kept {
				if err := same(kept[i], want[i]); err != nil {
					t.Fatalf("object %d: %v", i, err)
				}
			}
		}
	}
}

// TestDecodePatchTrimmed has fields, keys and parts of lists that are trimmed.
func TestDecodePatchTrimmed(t *testing.T) {
	rng := testseed.Rand(t)
	typ := reflect.TypeFor[*corev1.Pod]()
	opts := keeping
	opts.Trim = []string{"metadata.managedFields", "metadata.annotations[a]", "spec.volumes", "status"}
	c, all := newPatchChecker(t, typ, opts), neighbors(t, rng, typ, 4)
	differ := c.NewDiffer()
	for range 40 {
		base, data := pick(rng, all), pick(rng, all)
		if c.repatched(t, base, data, checkDiff(t, differ, base, data)) == nil {
			t.Fatal("the patch does not fit")
		}
	}
}

func newPod(t testing.TB, change func(*corev1.Pod)) (before, after []byte) {
	t.Helper()
	pod := wiretest.Pods(1, 1)[0]
	before = marshalAll(t, []*corev1.Pod{pod})[0]
	change(pod)
	return before, marshalAll(t, []*corev1.Pod{pod})[0]
}

// TestDecodePatchShares: parts that the patch leaves alone are shared by both objects, the rest is not.
func TestDecodePatchShares(t *testing.T) {
	d := newKeeping(t)
	before, after := newPod(t, func(p *corev1.Pod) {
		p.Name += "-2"
		p.Labels["new"] = "label"
		p.Spec.Containers[0].Image += ":2"
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7))}
		p.Status.Conditions[0].Reason = "Because"
	})
	p := checkDiff(t, d.NewDiffer(), before, after)
	a, err := d.DecodeBase(before)
	must(t, err)
	b, err := d.DecodePatch(a, p)
	must(t, err)
	if unsafe.StringData(a.Namespace) != unsafe.StringData(b.Namespace) || &a.OwnerReferences[0] != &b.OwnerReferences[0] || &a.Spec.Volumes[0] != &b.Spec.Volumes[0] ||
		&a.Status.ContainerStatuses[0] != &b.Status.ContainerStatuses[0] || a.Status.StartTime != b.Status.StartTime ||
		reflect.ValueOf(a.Annotations).Pointer() != reflect.ValueOf(b.Annotations).Pointer() {
		t.Error("a part that did not change is not that of the base")
	}
	if x, y := a.Spec.Containers[0], b.Spec.Containers[0]; &x.VolumeMounts[0] != &y.VolumeMounts[0] || unsafe.StringData(x.Name) != unsafe.StringData(y.Name) {
		t.Error("of a changed container, what did not change is not that of the base")
	}
	if reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer() || &a.Spec.Containers[0] == &b.Spec.Containers[0] ||
		&a.Status.Conditions[0] == &b.Status.Conditions[0] || a.Spec.SecurityContext == b.Spec.SecurityContext {
		t.Error("a part that changed is that of the base")
	}
	if unsafe.StringData(a.Name) == unsafe.StringData(b.Name) {
		t.Error("the names share memory")
	}
}

// TestDecodeNextPatchShares: entries equal in both patches are shared by both objects; a part that only
// the other patch changed is the base's.
func TestDecodeNextPatchShares(t *testing.T) {
	d := newKeeping(t)
	changed := func(change func(*corev1.Pod)) (*corev1.Pod, []byte) {
		before, after := newPod(t, change)
		p := checkDiff(t, d.NewDiffer(), before, after)
		base, err := d.DecodeBase(before)
		must(t, err)
		o, err := d.DecodePatch(base, p)
		must(t, err)
		return o, p
	}
	ofBoth := func(p *corev1.Pod) {
		p.Name, p.Status.PodIP = p.Name+"-2", "10.1.1.1"
		p.Spec.Containers[0].Image += ":2"
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7))}
	}
	base, _ := changed(func(*corev1.Pod) {})
	a, of := changed(func(p *corev1.Pod) {
		ofBoth(p)
		p.Spec.NodeName, p.Spec.Volumes, p.ResourceVersion = "", nil, "1"
	})
	_, p := changed(func(p *corev1.Pod) {
		ofBoth(p)
		p.ResourceVersion, p.Status.Message = "2", "new"
	})
	b, err := d.DecodeNextPatch(base, p, a, of)
	must(t, err)
	if unsafe.StringData(a.Name) != unsafe.StringData(b.Name) || unsafe.StringData(a.Status.PodIP) != unsafe.StringData(b.Status.PodIP) ||
		&a.Spec.Containers[0] != &b.Spec.Containers[0] || a.Spec.SecurityContext != b.Spec.SecurityContext {
		t.Error("a part that both have changed alike is not that of the other")
	}
	if unsafe.StringData(base.Spec.NodeName) != unsafe.StringData(b.Spec.NodeName) || &base.Spec.Volumes[0] != &b.Spec.Volumes[0] {
		t.Error("a part that only the other has changed is not that of the base")
	}
	if a.ResourceVersion != "1" || b.ResourceVersion != "2" || a.Status.Message == b.Status.Message {
		t.Error("the version or the message is wrong")
	}
}

// within reports whether the bytes of s are a part of data.
func within(data []byte, s string) bool {
	from, at := uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(unsafe.Pointer(unsafe.StringData(s)))
	return at >= from && at < from+uintptr(len(data))
}

// TestDecodeBaseIsInPlace: strings of a base point into its encoding, those of other objects do
// not, even after a malformed base.
func TestDecodeBaseIsInPlace(t *testing.T) {
	single := newKeeping(t)
	byInterface, err := NewAsInterface[generated](reflect.TypeFor[*corev1.Pod](), keeping)
	must(t, err)
	for name, d := range map[string]struct {
		base, decode func([]byte) (generated, error)
	}{
		"single": {
			func(b []byte) (generated, error) { return single.DecodeBase(b) },
			func(b []byte) (generated, error) { return single.Decode(b, nil) },
		},
		"interface": {byInterface.DecodeBase, func(b []byte) (generated, error) { return byInterface.Decode(b, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			data := encodedPods(t, 1, 1)[0]
			for _, broken := range []bool{false, true, false} {
				if broken {
					if _, err := d.base(data[:len(data)-1]); err == nil {
						t.Fatal("half a pod was decoded")
					}
				} else {
					o, err := d.base(data)
					must(t, err)
					if pod := o.(*corev1.Pod); !within(data, pod.Name) || !within(data, pod.Status.PodIP) {
						t.Error("a string of the base is elsewhere")
					}
				}
				o, err := d.decode(data)
				must(t, err)
				if pod := o.(*corev1.Pod); within(data, pod.Name) || within(data, pod.Status.PodIP) {
					t.Error("a string of another object is a part of its encoding")
				}
			}
		})
	}
}

// TestLargeBaseIsInPlace has a base larger than the encodings that other objects keep.
func TestLargeBaseIsInPlace(t *testing.T) {
	data := marshalAll(t, []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "name", Annotations: map[string]string{"a": strings.Repeat("x", maxKept)}}}})[0]
	d := newKeeping(t)
	base, err := d.DecodeBase(data)
	must(t, err)
	if !within(data, base.Name) || !within(data, base.Annotations["a"]) {
		t.Error("a string of the base is elsewhere")
	}
	other, err := d.Decode(data, nil)
	must(t, err)
	if within(data, other.Name) || within(data, other.Annotations["a"]) {
		t.Error("a string of another object is a part of its encoding")
	}
}

// TestWritesDoNotReachTheEncodingOfABase makes forbidden writes to the byte slices of decoded bases
// of all types. Their encoding, on which all patches depend, must not change.
func TestWritesDoNotReachTheEncodingOfABase(t *testing.T) {
	types := append(registered(), reflect.TypeFor[*holder]())
	filler := newFiller(testseed.Rand(t).Int64())
	for _, typ := range types {
		d, err := NewAsInterface[generated](typ, keeping)
		must(t, err)
		for _, data := range append(encodings(t, filler, typ, 1), messageField(1, []byte("text"))) {
			was := bytes.Clone(data)
			base, err := d.DecodeBase(data)
			if err != nil {
				continue
			}
			writeBytes(reflect.ValueOf(base))
			if !bytes.Equal(data, was) {
				t.Fatalf("%s: the encoding %x\nbecame %x", typ, was, data)
			}
		}
	}
}

// TestWritesDoNotReachAPatch has a field whose method keeps the bytes that it gets: they must not be the patch's.
func TestWritesDoNotReachAPatch(t *testing.T) {
	d, err := New[*holder](keeping)
	must(t, err)
	base, err := d.DecodeBase(messageField(1, []byte("text")))
	must(t, err)
	p := patch.AppendEntry(patch.AppendCount(nil, 0), 1, patch.Set)
	p = patch.AppendEnd(patch.AppendBytes(p, messageField(1, []byte("other text"))))
	was := bytes.Clone(p)
	h, err := d.DecodePatch(base, p)
	must(t, err)
	if string(h.Part.Data) != "other text" || string(base.Part.Data) != "text" {
		t.Errorf("%q became %q", base.Part.Data, h.Part.Data)
	}
	if writeBytes(reflect.ValueOf(h)); !bytes.Equal(p, was) {
		t.Errorf("the patch %x became %x", was, p)
	}
}

// writeBytes writes to all byte slices that v leads to.
func writeBytes(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			writeBytes(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				writeBytes(v.Field(i))
			}
		}
	case reflect.Map:
		for _, value := range v.Seq2() {
			writeBytes(value)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := v.Bytes()
			for i := range b[:cap(b)] {
				b[:cap(b)][i] ^= 1
			}
			return
		}
		for i := range v.Len() {
			writeBytes(v.Index(i))
		}
	}
}

// holder has a field that is decoded by its own method, which keeps the bytes.
type holder struct {
	Part keeper `protobuf:"bytes,1,opt,name=part"`
}

type keeper struct {
	Data []byte     `protobuf:"bytes,1,opt,name=data"`
	Odd  complex128 `protobuf:"bytes,2,opt,name=odd"`
}

func (*holder) Unmarshal([]byte) error { return errors.New("not called") }

func (h *holder) Marshal() ([]byte, error) { return messageField(1, h.Part.Data), nil }

func (k *keeper) Unmarshal(data []byte) error {
	k.Data = data
	return nil
}

// TestNoIrregularBase: the meaning of such fields depends on their place in the encoding, so it
// cannot be the base of a patch.
func TestNoIrregularBase(t *testing.T) {
	d := newKeeping(t)
	name := messageField(podMetadata, messageField(fieldOfName, []byte("a")))
	groups := messageField(podSpec, messageField(14, messageField(4, []byte{1, 0x80}), []byte{1, 0x10, 5})) // the last one extends beyond the end
	for _, data := range [][]byte{slices.Concat(name, name), groups} {
		if _, err := d.DecodeBase(data); err == nil {
			t.Errorf("%x was decoded", data)
		}
		if _, err := d.Decode(data, nil); err != nil {
			t.Error(err)
		}
	}
}

// beyond are messages with a map entry, or packed numbers, whose last value extends into the next field.
func beyond(after byte) map[reflect.Type][]byte {
	uid := messageField(podMetadata, messageField(5, []byte("one")))
	return map[reflect.Type][]byte{
		reflect.TypeFor[*corev1.ConfigMap](): slices.Concat(uid, []byte{2<<3 | 2, 5, 1<<3 | 2, 1, 'k', 2<<3 | 2, 2, 4 << 3, after}),
		reflect.TypeFor[*corev1.Pod]():       slices.Concat(uid, messageField(podSpec, messageField(14, messageField(4, []byte{1, 0x80}), []byte{1, 0x10, after}))),
	}
}

// TestValuesThatReachBeyondTheirField: the meaning of such a field depends on the next one, and changes with that.
func TestValuesThatReachBeyondTheirField(t *testing.T) {
	for typ, base := range beyond(5) {
		c, data := newPatchChecker(t, typ, keeping), beyond(1)[typ]
		if p := checkDiff(t, newDiffer(t, typ), base, data); p != nil {
			c.repatched(t, base, data, p)
		}
		d, err := newUntyped(typ, wire.Options{})
		must(t, err)
		d.beside = true
		for _, data := range [][]byte{base, data, base} {
			must(t, sameVerdict(d, typ, data))
		}
	}
}

// TestDecodePatchOfAnotherBase applies patches to wrong bases: none at all, or other objects.
func TestDecodePatchOfAnotherBase(t *testing.T) {
	rng := testseed.Rand(t)
	typ := reflect.TypeFor[*corev1.Pod]()
	c, all := newPatchChecker(t, typ, keeping), neighbors(t, rng, typ, 4)
	differ := c.NewDiffer()
	for range 80 {
		p := checkDiff(t, differ, pick(rng, all), pick(rng, all))
		checkHostile(t, c, pick(rng, all), p)
	}
	p := checkDiff(t, differ, all[0], all[1])
	for _, base := range []generated{nil, (*corev1.Pod)(nil), &corev1.Node{}} {
		if o, err := c.DecodePatch(base, p); err == nil || o != nil {
			t.Errorf("%T became %v", base, o)
		}
	}
	if pod, err := newKeeping(t).DecodePatch(nil, p); pod != nil || err == nil {
		t.Errorf("nothing became %v", pod)
	}
}

// checkHostile applies arbitrary bytes as a patch. If that works with both the encoding and the
// object, the results must agree.
func checkHostile(t testing.TB, c *patchChecker, base, p []byte) {
	t.Helper()
	data, err := patch.Apply(nil, base, p, len(base)+len(p))
	if _, head := patch.NewReader(p); err != nil || head > 0 { // the object does not have the bytes before the message
		data = []byte{7} // not a message
	}
	if o := c.repatched(t, base, data, p); o != nil {
		if _, err := o.Marshal(); err != nil {
			t.Fatal(err)
		}
	}
}

// mutatePatch changes bytes of a patch.
func mutatePatch(rng *rand.Rand, p []byte, others [][]byte) []byte {
	if rng.IntN(8) == 0 {
		p = make([]byte, rng.IntN(20))
		for i := range p {
			p[i] = byte(rng.UintN(64))
		}
		return p
	}
	return mutate(rng, p, others)
}

// TestHostilePatches applies mutated patches.
func TestHostilePatches(t *testing.T) {
	rng := testseed.Rand(t)
	typ := reflect.TypeFor[*corev1.Pod]()
	c, all := newPatchChecker(t, typ, keeping), neighbors(t, rng, typ, 4)
	differ := c.NewDiffer()
	var patches [][]byte
	for range 40 {
		patches = append(patches, checkDiff(t, differ, pick(rng, all), pick(rng, all)))
	}
	for range 150 {
		checkHostile(t, c, pick(rng, all), mutatePatch(rng, pick(rng, patches), patches))
	}
}

// TestSetOfOtherFields has a patch that claims to set one field but contains others, which the base already has.
func TestSetOfOtherFields(t *testing.T) {
	c := newPatchChecker(t, reflect.TypeFor[*corev1.Pod](), keeping)
	base := encodedPods(t, 1, 1)[0]
	label := messageField(podMetadata, messageField(11, messageField(1, []byte("k")), messageField(2, []byte("v"))))
	p := patch.AppendEnd(patch.AppendBytes(patch.AppendEntry(patch.AppendCount(nil, 0), 99, patch.Set), label))
	if _, err := patch.Apply(nil, base, p, 1<<20); err != patch.ErrBroken {
		t.Error(err)
	}
	if c.repatched(t, base, base, p) != nil {
		t.Error("the patch was applied")
	}
}

// TestListsWithoutGaps has patches that leave list elements unchanged that the base does not have.
func TestListsWithoutGaps(t *testing.T) {
	c := newPatchChecker(t, reflect.TypeFor[*corev1.Pod](), keeping)
	base := messageField(podSpec, messageField(specContainers, messageField(containerName, []byte("a"))))
	for gap, fits := range []bool{true, true, false, false} { // 0 replaces the existing one
		p := patch.AppendEntry(patch.AppendEntry(patch.AppendCount(nil, 0), podSpec, patch.Within), specContainers, patch.List)
		p = patch.AppendBytes(patch.AppendElement(patch.AppendCount(p, gap+2), gap, patch.NewElement), nil)
		p = patch.AppendBytes(patch.AppendElement(p, 0, patch.NewElement), nil)
		p = patch.AppendEnd(patch.AppendEnd(patch.AppendEnd(p)))
		data, err := patch.Apply(nil, base, p, 1<<10)
		if o := c.repatched(t, base, data, p); fits != (err == nil) || fits != (o != nil) {
			t.Errorf("a gap of %d: %v, %v", gap, err, o)
		}
	}
}

// TestDecodePatchMemoryIsBounded has patches with lists that would take far more memory than the patches justify.
func TestDecodePatchMemoryIsBounded(t *testing.T) {
	d := newKeeping(t)
	base, err := d.DecodeBase(encodedPods(t, 1, 1)[0])
	must(t, err)
	containers := func(count, elements int) []byte {
		p := patch.AppendEntry(patch.AppendEntry(patch.AppendCount(nil, 0), podSpec, patch.Within), specContainers, patch.List)
		p = patch.AppendCount(p, count)
		for range elements {
			p = patch.AppendBytes(patch.AppendElement(p, 0, patch.NewElement), nil)
		}
		return patch.AppendEnd(patch.AppendEnd(patch.AppendEnd(p)))
	}
	for name, p := range map[string][]byte{"count": containers(1<<30, 1), "elements": containers(100_000, 100_000), "nothing": containers(0, 0)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := d.DecodePatch(base, p); err == nil {
			t.Errorf("%s: the patch was applied", name)
		}
		runtime.ReadMemStats(&after)
		if taken, most := after.TotalAlloc-before.TotalAlloc, wire.Allowance(len(p))+patchRoom; taken > uint64(most) {
			t.Errorf("%s: it took %d bytes, more than %d", name, taken, most)
		}
	}
	if o, err := d.DecodePatch(base, containers(20, 20)); err != nil || len(o.Spec.Containers) != 20 {
		t.Error(err)
	}
}

// TestDecodePatchLargeBase changes little of an object with a large list, which exceeds what the patch alone would allow.
func TestDecodePatchLargeBase(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 3500)}}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Command = []string{strings.Repeat("x", 40)}
	}
	before := marshalAll(t, []*corev1.Pod{pod})[0]
	for i := range 4 {
		pod.Spec.Containers[i*7].Command = []string{strings.Repeat("y", maxDeferred-2+i)}
	}
	after := marshalAll(t, []*corev1.Pod{pod})[0]
	c := newPatchChecker(t, reflect.TypeFor[*corev1.Pod](), keeping)
	for _, pair := range [][2][]byte{{before, after}, {after, before}} {
		if c.repatched(t, pair[0], pair[1], checkDiff(t, c.NewDiffer(), pair[0], pair[1])) == nil {
			t.Error("the patch does not fit")
		}
	}
}

// FuzzDecodePatch applies arbitrary bytes to a decoded pod.
func FuzzDecodePatch(f *testing.F) {
	pods := encodedPods(f, 5, 1)
	c := newPatchChecker(f, reflect.TypeFor[*corev1.Pod](), keeping)
	differ := c.NewDiffer()
	for _, data := range pods {
		f.Add(checkDiff(f, differ, pods[0], data))
	}
	f.Fuzz(func(t *testing.T, p []byte) { checkHostile(t, c, pods[0], p) })
}

// BenchmarkDecodePatch measures making and applying the patch between two neighbors; compare with decoding the object.
func BenchmarkDecodePatch(b *testing.B) {
	pods := encodedPods(b, 100, 1)
	base, data := pods[50], pods[51]
	d, err := New[*corev1.Pod](keeping)
	must(b, err)
	differ := d.NewDiffer()
	p := checkDiff(b, differ, base, data)
	object, err := d.DecodeBase(base)
	must(b, err)
	other, err := d.DecodePatch(object, p)
	must(b, err)
	pod := new(corev1.Pod)
	must(b, pod.Unmarshal(data))
	pod.ResourceVersion, pod.Status.Conditions[0].Message = "123456789", "not ready"
	changed, err := pod.Marshal()
	must(b, err)
	next := checkDiff(b, differ, base, changed)
	var buf []byte
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"diff", func() error { buf, _ = differ.Diff(buf[:0], 0, base, data, len(data)); return nil }},
		{"apply", func() (err error) { buf, err = patch.Apply(buf[:0], base, p, len(data)); return err }},
		{"patched", func() error { _, err := d.DecodePatch(object, p); return err }},
		{"repatched", func() error { _, err := d.DecodeNextPatch(object, next, other, p); return err }},
		{"decode", func() error { _, err := d.Decode(data, nil); return err }},
		{"unmarshal", func() error { return new(corev1.Pod).Unmarshal(data) }},
	} {
		b.Run(step.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, step.do())
			}
		})
	}
}
