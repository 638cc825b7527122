package proto

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestVersionsOfObjects decodes version after version of some pods, whose metadata, spec or status
// change. Each must equal its encoding, even at the end; an unchanged spec must be shared with the
// previous version.
func TestVersionsOfObjects(t *testing.T) {
	seed := testseed.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	d := newPodDecoder(t)
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
			delete(d.last, got.UID)
			last[i] = nil
		}
	}
	for i := range decoded {
		if err := same(decoded[i], want[i]); err != nil {
			t.Fatalf("seed %d: version %d: %v", seed, i, err)
		}
	}
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

// TestBrokenVersionTakesNothingOver has an object with a known spec whose other parts are malformed or irregular.
func TestBrokenVersionTakesNothingOver(t *testing.T) {
	d := newPodDecoder(t)
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
	// The spec again, which protobuf merges with the first: lists get longer.
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

// TestStatsOfVersions: a reused spec counts as a lookup and a hit, with all its bytes.
func TestStatsOfVersions(t *testing.T) {
	d, p := newPodDecoder(t), sharedPod()
	before := d.d.stats
	for i := range 5 {
		p.ResourceVersion = fmt.Sprint(i)
		decodePod(t, d, p)
		after := d.d.stats
		want := wire.Stats{Objects: 1, Bytes: uint64(p.Size()), Lookups: 1, Hits: 1, SharedBytes: uint64(p.Spec.Size())}
		if i == 0 {
			want.Lookups, want.Hits, want.SharedBytes = 0, 0, 0
		}
		got := wire.Stats{
			Objects: after.Objects - before.Objects, Bytes: after.Bytes - before.Bytes, Lookups: after.Lookups - before.Lookups, Hits: after.Hits - before.Hits,
			SharedBytes: after.SharedBytes - before.SharedBytes,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, want %+v", i, got, want)
		}
		before = after
	}
}
