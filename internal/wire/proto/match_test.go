package proto

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestEveryTypeInVersions decodes version after version of an object of each type, valid and
// malformed. Each must equal the result of the generated decoder, and must still do so when all
// later ones were decoded.
func TestEveryTypeInVersions(t *testing.T) {
	seed := testseed.Seed(t)
	for i, typ := range registered() {
		if _, ok := newGenerated(typ).(metav1.Object); !ok {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			filler := newFiller(int64(seed>>1) + int64(i))
			for _, opts := range []wire.Options{{}, {NoSharing: true}, {KeepBytes: true}, {Trim: []string{"metadata.annotations[a]", "metadata.generateName"}}} {
				for range max(1, *objects/2) {
					obj := newGenerated(typ)
					filler.Fill(obj)
					if err := inVersions(rng, obj, opts); err != nil {
						t.Fatalf("seed %d, %+v: %v", seed, opts, err)
					}
				}
			}
		})
	}
}

// inVersions changes obj repeatedly and decodes it each time, in half of the runs together with the previous encoding.
func inVersions(rng *rand.Rand, obj generated, opts wire.Options) error {
	typ := reflect.TypeOf(obj)
	d, err := newUntyped(typ, opts)
	if err != nil {
		return err
	}
	d.beside = rng.IntN(2) == 0
	var got, want []generated
	var encoded [][]byte
	for range 10 {
		obj.(metav1.Object).SetUID("one")
		data, err := obj.Marshal()
		if err != nil {
			return err
		}
		encoded = append(encoded, data)
		o, err := decodeAny(d, bytes.Clone(data))
		if err != nil {
			return err
		}
		w, err := oracle(typ, data)
		if err != nil {
			return err
		}
		trimLike(w.(metav1.Object), opts)
		if err := same(o, w); err != nil {
			return fmt.Errorf("version %d, beside the encoding before: %t: %w", len(got), d.beside, err)
		}
		got, want = append(got, o), append(want, w)
		if broken := mutate(rng, data, encoded); opts.Trim == nil {
			if err := sameVerdict(d, typ, broken); err != nil {
				return fmt.Errorf("broken version %d: %w", len(got), err)
			}
		}
		for range rng.IntN(6) {
			vary(rng, reflect.ValueOf(obj).Elem())
		}
	}
	for i := range got {
		if err := same(got[i], want[i]); err != nil {
			return fmt.Errorf("version %d in the end: %w", i, err)
		}
	}
	return nil
}

// trimLike applies the trims of TestEveryTypeInVersions to o.
func trimLike(o metav1.Object, opts wire.Options) {
	if opts.Trim == nil {
		return
	}
	o.SetGenerateName("")
	if a := o.GetAnnotations(); a != nil {
		if delete(a, "a"); len(a) == 0 {
			o.SetAnnotations(nil)
		}
	}
}

// FuzzVersions decodes two consecutive versions of an object of the type chosen by which.
func FuzzVersions(f *testing.F) {
	types := registered()
	filler := newFiller(1)
	rng := rand.New(rand.NewPCG(1, 1))
	for i, typ := range types {
		o, ok := newGenerated(typ).(metav1.Object)
		if !ok {
			continue
		}
		filler.Fill(o)
		o.SetUID("one")
		before, err := o.(generated).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		vary(rng, reflect.ValueOf(o).Elem())
		o.SetUID("one")
		after, err := o.(generated).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(i), before, after)
	}
	decoders := map[reflect.Type][]*untyped{}
	f.Fuzz(func(t *testing.T, which uint16, before, after []byte) {
		typ := types[int(which)%len(types)]
		if decoders[typ] == nil {
			all := fuzzDecoders(t, typ)
			decoders[typ] = []*untyped{all[0], all[len(all)-1]}
		}
		for _, d := range decoders[typ] {
			for _, data := range [][]byte{before, after, before} {
				if err := sameVerdict(d, typ, data); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestUnchangedPartsAreTakenOver checks what two versions share.
func TestUnchangedPartsAreTakenOver(t *testing.T) {
	d := newPodDecoder(t)
	pod := wiretest.Pods(1, 1)[0]
	a := decodePod(t, d, pod)
	touch(pod, 1)
	b := decodePod(t, d, pod)
	if err := same(b, pod); err != nil {
		t.Fatal(err)
	}
	if &a.OwnerReferences[0] != &b.OwnerReferences[0] ||
		reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
		t.Error("owners or labels were decoded again")
	}
	if a.Status.StartTime != b.Status.StartTime ||
		a.Status.ContainerStatuses[0].State.Running != b.Status.ContainerStatuses[0].State.Running {
		t.Error("a time or state was decoded again")
	}
	if a.ManagedFields[1].FieldsV1 != b.ManagedFields[1].FieldsV1 ||
		a.ManagedFields[1].Time == b.ManagedFields[1].Time {
		t.Error("of the changed entry, only the time shall be decoded again")
	}
	if &a.Status.Conditions[0] == &b.Status.Conditions[0] {
		t.Error("the conditions were taken over, though they changed")
	}
}

// TestTableTakesNothingOver makes a list and a pointer target go into the table while a previous
// version has the same strings in its own block: other objects must not keep that alive.
func TestTableTakesNothingOver(t *testing.T) {
	d := newPodDecoder(t)
	pod := wiretest.Pods(1, 1)[0]
	pod.Finalizers = []string{"example.com/first", "example.com/second"}
	ended := &corev1.ContainerStateTerminated{ContainerID: "containerd://1", Message: "first"}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: ended}
	version := func(mode share.Mode) *corev1.Pod {
		for _, s := range d.d.compiler.sites {
			s.rate.Mode = share.Sampling
			if s.path() == "metadata.finalizers" || s.path() == "status.containerStatuses.state.terminated" {
				s.rate.Mode = mode
			}
		}
		return decodePod(t, d, pod)
	}
	version(share.Sampling)
	pod.UID = "another"
	a := version(share.Sampling)
	pod.Finalizers[1], ended.Message = "example.com/third", "second"
	b := version(share.Direct)
	if d.d.table.Len() == 0 {
		t.Fatal("nothing went into the table")
	}
	if unsafe.StringData(a.Finalizers[0]) == unsafe.StringData(b.Finalizers[0]) {
		t.Error("a list in the table has a string of an object")
	}
	id := func(p *corev1.Pod) *byte {
		return unsafe.StringData(p.Status.ContainerStatuses[0].State.Terminated.ContainerID)
	}
	if id(a) == id(b) {
		t.Error("a message in the table has a string of an object")
	}
	pod.UID = "third"
	c := version(share.Direct)
	if &b.Finalizers[0] != &c.Finalizers[0] ||
		b.Status.ContainerStatuses[0].State.Terminated != c.Status.ContainerStatuses[0].State.Terminated {
		t.Error("the two did not come from the table")
	}
}

// TestNothingTakenOverThatSomebodyChanged makes a forbidden write to an object. Comparing must not spread it.
func TestNothingTakenOverThatSomebodyChanged(t *testing.T) {
	d := newPodDecoder(t)
	pod := wiretest.Pods(1, 1)[0]
	now := metav1.Now()
	for i, spoil := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Name, p.Status.PodIP = "spoilt", "spoilt" },
		func(p *corev1.Pod) { p.Labels = map[string]string{"spoilt": ""} },
		func(p *corev1.Pod) { p.Labels, p.OwnerReferences = nil, nil },
		func(p *corev1.Pod) { p.DeletionTimestamp, p.Status.StartTime = &now, &now },
		func(p *corev1.Pod) { p.Finalizers, p.Annotations = []string{"spoilt"}, map[string]string{} },
		func(p *corev1.Pod) { p.Status.Conditions = p.DeepCopy().Status.Conditions[1:] },
		func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{}) },
		func(p *corev1.Pod) {
			p.Status.ContainerStatuses = p.DeepCopy().Status.ContainerStatuses
			p.Status.ContainerStatuses[0].LastTerminationState.Running = &corev1.ContainerStateRunning{}
		},
		func(p *corev1.Pod) { p.ManagedFields = make([]metav1.ManagedFieldsEntry, len(p.ManagedFields)) },
		func(p *corev1.Pod) { p.UID = types.UID("spoilt") },
	} {
		spoil(decodePod(t, d, pod))
		if err := same(decodePod(t, d, pod), pod); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestMatchesIsExact compares messages with encodings that are nearly theirs.
func TestMatchesIsExact(t *testing.T) {
	d := newPodDecoder(t)
	for _, c := range []struct {
		meta metav1.ObjectMeta
		data string
		want bool
	}{
		{metav1.ObjectMeta{}, "", true},
		{metav1.ObjectMeta{}, "\x0a\x00", true},      // an empty name
		{metav1.ObjectMeta{}, "\xfa\x3f\x01x", true}, // an unknown field
		{metav1.ObjectMeta{}, "\x0a", false},         // truncated
		{metav1.ObjectMeta{Name: "x"}, "", false},    // missing
		{metav1.ObjectMeta{Name: "x"}, "\x0a\x00", false},
		{metav1.ObjectMeta{Name: "x"}, "\x0a\x01x", true},
		{metav1.ObjectMeta{Name: "x"}, "\x0a\x01x\x0a\x01x", false}, // duplicated
		{metav1.ObjectMeta{Name: "x"}, "\x08\x01", false},           // another wire type
		{metav1.ObjectMeta{Generation: 1}, "\x38\x01", true},
		{metav1.ObjectMeta{Generation: 1}, "\x38\x02", false},
		{metav1.ObjectMeta{Generation: 1}, "\x0a\x00\x38\x01", true},
		{metav1.ObjectMeta{Generation: 1}, "\x0a\x00\x12\x38\x01", false}, // truncated
		{metav1.ObjectMeta{}, "\x38\x00\x0a\x00", true},
		{metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}, "\x5a\x06\x0a\x01a\x12\x011", true},
		{metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}, "", false},
		{metav1.ObjectMeta{Labels: map[string]string{}}, "", false},
		{metav1.ObjectMeta{Finalizers: []string{"f"}}, "\x72\x01f", true},
		{metav1.ObjectMeta{Finalizers: []string{"f"}}, "\x72\x01f\x72\x01f", false},
		{metav1.ObjectMeta{Finalizers: []string{"f", "f"}}, "\x72\x01f", false},
		{metav1.ObjectMeta{Finalizers: []string{"f", "g", "h"}}, "\x72\x01f\x72\x01g\x72\x01h", true},
		{metav1.ObjectMeta{Finalizers: []string{"f", "g", "h"}}, "\x72\x01f\x72\x01h\x72\x01g", false},
		{metav1.ObjectMeta{Finalizers: []string{"f", strings.Repeat("g", 0x72)}}, "\x72\x01f\x72" + strings.Repeat("g", 0x72), false},
		{metav1.ObjectMeta{Finalizers: []string{"f", "g"}, Generation: 1}, "\x38\x01\x72\x01f\x72\x01g", true},
		{metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "2"}}, "\x5a\x06\x0a\x01a\x12\x011\x5a\x06\x0a\x01b\x12\x012", true},
		{metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "2"}}, "\x5a\x06\x0a\x01b\x12\x012\x5a\x06\x0a\x01a\x12\x011", false}, // out of order
		{metav1.ObjectMeta{Finalizers: []string{""}}, "\x72\x00", true},
		{metav1.ObjectMeta{Finalizers: []string{}}, "", false},
		{metav1.ObjectMeta{Finalizers: make([]string, 1, 2)}, "\x72\x00", false}, // somebody could append to it
		{metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, "\x4a\x00", true},
		{metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, "", false},
		{metav1.ObjectMeta{}, "\x4a\x00", false},
		{metav1.ObjectMeta{DeletionGracePeriodSeconds: new(int64)}, "\x50\x00", true},
		{metav1.ObjectMeta{}, "\x50\x00", false},
	} {
		pod := corev1.Pod{ObjectMeta: c.meta}
		field := d.d.compiler.field(d.d.root, 1)
		if got := d.d.matchValue(field, reflect.ValueOf(&pod.ObjectMeta).UnsafePointer(), []byte(c.data), maxMatch); got != c.want {
			t.Errorf("%+v, %q: got %v", c.meta, c.data, got)
		}
	}
}

// TestNumbersAreTakenOver if something next to them has changed.
func TestNumbersAreTakenOver(t *testing.T) {
	for range 5 {
		d, pod := newPodDecoder(t), sharedPod()
		before := decodePod(t, d, pod)
		pod.Spec.SecurityContext.FSGroup = new(int64(5000))
		after := decodePod(t, d, pod)
		if err := same(after, pod); err != nil {
			t.Fatal(err)
		}
		if &before.Spec.SecurityContext.SupplementalGroups[0] != &after.Spec.SecurityContext.SupplementalGroups[0] {
			t.Error("equal numbers are decoded again")
		}
		pod.Spec.SecurityContext.SupplementalGroups[2]++
		if err := same(decodePod(t, d, pod), pod); err != nil {
			t.Error(err)
		}
	}
}

// TestMatchesBoundsDepth: deeply nested parts are not compared, so that comparing does not take quadratic time.
func TestMatchesBoundsDepth(t *testing.T) {
	d, err := New[*tree](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for depth, want := range map[int]bool{0: true, 1: true, 5: true, 3 * maxMatch: false, 10 * maxMatch: false} {
		o, err := d.Decode(chain(depth), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.d.matches(d.d.root, unsafe.Pointer(o), chain(depth), maxMatch); got != want {
			t.Errorf("depth %d: %t", depth, got)
		}
	}
}

// TestMatchReadsLongTags has a tag of two bytes, the first of which looks like a tag itself,
// followed by what would then look like another field.
func TestMatchReadsLongTags(t *testing.T) {
	const data = "\x80\x01\xc0\x3e\xfa\x3e\x0a\x09abcdefghi" // stdin, and an unknown field
	d := newPodDecoder(t)
	decodePod(t, d, sharedPod())
	field := d.d.compiler.field(d.d.compiler.plan(d.d.spec), specContainers)
	for c, want := range map[*corev1.Container]bool{{Stdin: true}: true, {Stdin: true, Name: "abcdefghi"}: false} {
		if got := d.d.matchValue(field, unsafe.Pointer(c), []byte(data), maxMatch); got != want {
			t.Errorf("%q: %t", c.Name, got)
		}
	}
}

// TestListThatIsAMessage: a message that is a list, with an unknown field in place of its items.
func TestListThatIsAMessage(t *testing.T) {
	request := func(value string) []byte {
		entry := "\x0a\x01k\x12" + string(rune(len(value))) + value
		extra := "\x32" + string(rune(len(entry))) + entry
		spec := "\x12\x01u" + extra
		return []byte("\x0a\x05\x2a\x03uid\x12" + string(rune(len(spec))) + spec)
	}
	d, err := newUntyped(reflect.TypeFor[*certificatesv1.CertificateSigningRequest](), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"\x0a\x00", "\x52\x00", "", "\x0a\x01a", "\x52\x00\x0a\x01a", "\x52\x00"} {
		if err := sameVerdict(d, reflect.TypeFor[*certificatesv1.CertificateSigningRequest](), request(value)); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestSameBytes(t *testing.T) {
	for _, c := range []struct {
		old, b []byte
		want   bool
	}{
		{nil, nil, false}, // the decoder makes it empty, not nil
		{[]byte{}, nil, true},
		{[]byte{1}, []byte{1}, true},
		{[]byte{1}, []byte{2}, false},
		{make([]byte, 1, 2), []byte{0}, false},
	} {
		if got := sameBytes(c.old, c.b); got != c.want {
			t.Errorf("%v, %v: got %v", c.old, c.b, got)
		}
	}
}
