package proto

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestVersionsOfObjects decodes version after version of some pods, which change in their metadata, spec or status. Each
// must equal its encoding, also at the end; a spec that did not change must be that of the version before.
func TestVersionsOfObjects(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := wiretest.Pods(20, seed)
	last := make([]*corev1.Pod, len(now))
	var decoded, want []*corev1.Pod
	for range 1000 {
		i := rnd.IntN(len(now))
		now[i] = now[i].DeepCopy()
		specChanged := change(now[i], rnd)
		got := decodePod(t, d, now[i])
		decoded, want = append(decoded, got), append(want, now[i])
		taken := last[i] != nil && &got.Spec.Containers[0] == &last[i].Spec.Containers[0]
		if last[i] != nil && !specChanged && !taken {
			t.Fatalf("seed %d: the unchanged spec of %s was decoded again", seed, got.Name)
		}
		last[i] = got
		if rnd.IntN(20) == 0 {
			d.Forget(string(got.UID))
			last[i] = nil
		}
		if rnd.IntN(100) == 0 {
			relist(d, last, rnd)
		}
	}
	for i := range decoded {
		if err := same(decoded[i], want[i]); err != nil {
			t.Fatalf("seed %d: version %d: %v", seed, i, err)
		}
	}
}

// relist tells the decoder of a list that has most of the pods, and is broken off at first now and then.
func relist(d *Decoder[*corev1.Pod], last []*corev1.Pod, rnd *rand.Rand) {
	if rnd.IntN(3) == 0 {
		d.BeginList()
	}
	d.BeginList()
	for i, p := range last {
		switch {
		case p == nil:
		case rnd.IntN(4) == 0:
			last[i] = nil
		default:
			d.Keep([]byte(p.UID))
		}
	}
	d.EndList()
}

// change changes one part of p and reports whether that was the spec.
func change(p *corev1.Pod, rnd *rand.Rand) (spec bool) {
	p.ResourceVersion = fmt.Sprint(rnd.Uint32())
	switch rnd.IntN(4) {
	case 0:
		p.Spec.Containers[0].Image = fmt.Sprint("example.com/image:", rnd.IntN(5))
		return true
	case 1:
		p.Annotations = map[string]string{"note": fmt.Sprint(rnd.IntN(5))}
	case 2:
		p.Status.Message = fmt.Sprint("message ", rnd.IntN(5))
	}
	return false
}

func decodePod(t *testing.T, d *Decoder[*corev1.Pod], p *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestBrokenVersionTakesNothingOver has an object whose spec is known, but whose other parts are broken or irregular.
func TestBrokenVersionTakesNothingOver(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := wiretest.Pods(1, 1)[0]
	decodePod(t, d, p)
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(append(data[:len(data):len(data)], 0x1a, 0x7f)); err == nil {
		t.Error("a status that is cut off was taken")
	}
	spec, ok := only(data, specField)
	if !ok {
		t.Fatal("the pod has no spec")
	}
	// The spec once more, which protobuf merges with the first: lists get longer.
	twice := append(data[:len(data):len(data)], 0x12, byte(len(spec)&0x7f|0x80), byte(len(spec)>>7))
	twice = append(twice, spec...)
	want := &corev1.Pod{}
	if err := want.Unmarshal(twice); err != nil {
		t.Fatal(err)
	}
	got, err := d.Decode(twice)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(got, want); err != nil {
		t.Error(err)
	}
	if again := decodePod(t, d, p); len(again.Spec.Containers) != len(p.Spec.Containers) {
		t.Errorf("%d containers after an irregular version, want %d", len(again.Spec.Containers), len(p.Spec.Containers))
	}
}

// TestForgottenValuesGo checks that the decoder lets go of the objects that are gone.
func TestForgottenValuesGo(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range wiretest.Pods(100, 1) {
		decodePod(t, d, p)
		if i%2 == 0 {
			d.Forget(string(p.UID))
		}
	}
	if n := len(d.d.latest.objects); n != 50 {
		t.Errorf("%d objects are kept, want 50", n)
	}
	d.BeginList()
	d.EndList()
	if n := len(d.d.latest.objects) + len(d.d.latest.before); n != 0 {
		t.Errorf("%d objects are kept after a list that has none", n)
	}
}
