package replica

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// received returns an object that is new.
func received(raw *codec.Raw) intake.Received[*codec.Raw] {
	return intake.Received[*codec.Raw]{Object: raw}
}

// TestGatheringReleases: what a list has packed and does not hand on is not kept.
func TestGatheringReleases(t *testing.T) {
	c := NewCollection(Limits{Bytes: 1 << 20})
	podType := &protocol.ResourceType{GroupVersionResource: pods, Kind: "Pod", Namespaced: true, BuiltIn: true}
	if err := c.begin(podType, true); err != nil {
		t.Fatal(err)
	}
	packable := func(pod *corev1.Pod) intake.Received[*codec.Raw] {
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := codec.ParseRaw(data, true)
		if err != nil {
			t.Fatal(err)
		}
		return received(raw)
	}
	all := wiretest.Pods(1300, 2)
	for i, pod := range all {
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, i)
	}
	kept := func(want ...*corev1.Pod) {
		t.Helper()
		size := int64(0)
		for _, pod := range want {
			size += int64(pod.Size() + c.codec.head())
		}
		if got := c.newest().FoldStats().EncodedBytes; got != size {
			t.Errorf("packed objects of %d bytes are counted, want %d of %d", got, len(want), size)
		}
	}
	g := c.gather(0)
	for _, pod := range all {
		g.Add(packable(pod))
	}
	g.Remove(1)
	g.Set(2, packable(all[2]))
	g.Truncate(1250)
	g.Collection()
	left := slices.Concat(all[:1], all[len(all)-1:], all[2:1250])
	kept(left...)
	if key := g.Key(1); key.Name != all[len(all)-1].Name || g.Version(1) != all[len(all)-1].ResourceVersion {
		t.Errorf("in place of what was removed is %v at %s", key, g.Version(1))
	}
	g.Close()
	kept()
	g = c.gather(0)
	for _, pod := range all[:700] {
		g.Add(packable(pod))
	}
	c.Replace(g.Collection(), "100000000")
	g.Close()
	kept(all[:700]...)
	g = c.gather(0)
	held, _ := c.newest().Held(object.KeyOf(all[0]))
	g.Add(intake.Received[*codec.Raw]{State: &held, Unchanged: true})
	g.Add(packable(all[1]))
	objects := g.Collection()
	for key, raw := range objects.All() {
		if raw.Name != key.Name {
			t.Errorf("%v has the name %s", key, raw.Name)
		}
	}
	c.Replace(objects, "100000001")
	g.Close()
	kept(all[:2]...)
	c.Remove()
	kept()
}
