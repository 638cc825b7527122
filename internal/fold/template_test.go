package fold

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// podDiffer makes patches of encoded pods. It returns false for malformed ones that make it panic.
func podDiffer(t testing.TB) Differ {
	t.Helper()
	dec, err := proto.New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := dec.NewDiffer()
	return func(dst, base, data []byte, most int) ([]byte, bool) { return d.Diff(dst, 0, base, data, most) }
}

// ofOwner returns encoded pods of one owner, 40 at most.
func ofOwner(t testing.TB, n int) [][]byte {
	t.Helper()
	return marshalAll(t, podsOfOwner()[:n])
}

var podsOfOwner = sync.OnceValue(func() []*corev1.Pod {
	for seed := uint64(1); ; seed++ {
		var pods []*corev1.Pod
		for _, pod := range wiretest.Pods(500, seed) {
			if len(pods) > 0 && pod.GenerateName != pods[0].GenerateName {
				pods = nil
			}
			if pods = append(pods, pod); len(pods) == 40 {
				return pods
			}
		}
	}
})

// patched returns a packer with a template for the objects, and the objects packed as patches of it.
func patched(t testing.TB, objects [][]byte) (*Packer, []Packed) {
	t.Helper()
	p := &Packer{}
	p.SetDiffer(podDiffer(t))
	packed := p.PackAll(objects)
	for i, object := range packed {
		if !object.is(formPatch) || object.Dictionary() != packed[0].Dictionary() {
			t.Fatalf("object %d is no patch of the template of the others", i)
		}
	}
	return p, packed
}

// inBatches packs the objects in list order.
func inBatches(differ Differ, objects [][]byte) Stats {
	var p Packer
	if differ != nil {
		p.SetDiffer(differ)
	}
	for from := 0; from < len(objects); from += 500 {
		p.PackAll(objects[from:min(from+500, len(objects))])
	}
	return p.Stats()
}

// TestMemoryOfPatches packs similar and other objects with a Differ and without.
func TestMemoryOfPatches(t *testing.T) {
	const seed = 1 // some choices of pods have fewer replicas
	differ := podDiffer(t)
	for _, c := range []struct {
		name        string
		objects     [][]byte
		least, most float64 // bytes with a Differ, relative to those without
	}{
		{"pods of many replicas", marshalAll(t, wiretest.Pods(1000, seed)), 0, 0.97},
		{"pods of small owners", marshalAll(t, wiretest.PodsOfSmallOwners(400, 3, seed)), 0.98, 1.02},
		{"random ConfigMaps", marshalAll(t, randomConfigMaps(300, seed)), 0.98, 1.02},
		{"Events", marshalAll(t, events(500, seed)), 0.98, 1.02},
	} {
		with, without := inBatches(differ, c.objects), inBatches(nil, c.objects)
		ratio := float64(with.Bytes()) / float64(without.Bytes())
		t.Logf("%s: %d bytes with a Differ, %d without: %.3f; %d and %d dictionaries", c.name, with.Bytes(), without.Bytes(), ratio, with.Dictionaries, without.Dictionaries)
		if ratio < c.least || ratio > c.most {
			t.Errorf("%s take %.3f of what they take without a Differ", c.name, ratio)
		}
		if with.Trainings > without.Trainings {
			t.Errorf("%s: %d dictionaries are trained, %d without a Differ", c.name, with.Trainings, without.Trainings)
		}
	}
}

// TestOtherOrderOfFields has objects in encodings that no server writes, which a patch would not reproduce.
func TestOtherOrderOfFields(t *testing.T) {
	var p Packer
	p.SetDiffer(podDiffer(t))
	objects := ofOwner(t, 10)
	for i, data := range objects {
		end := int(data[1]&0x7f) | int(data[2])<<7 + 3 // the first field has up to 16 KiB
		if i%2 == 0 {
			objects[i] = append(bytes.Clone(data[end:]), data[:end]...)
		} else { // the length encoded in one byte more
			objects[i] = append([]byte{data[0], data[1], data[2] | 0x80, 0}, data[3:]...)
		}
	}
	for i, object := range p.PackAll(objects) {
		mustOpen(t, object, objects[i])
	}
}

// TestThinTemplatesGo releases all but a few patches of a template. These are stale, and the
// template is freed when they are repacked.
func TestThinTemplatesGo(t *testing.T) {
	objects := ofOwner(t, 10)
	p, packed := patched(t, objects)
	template := weak.Make(packed[0].Dictionary())
	size := int64(packed[0].Dictionary().Size())
	for i := range len(packed) - minPatches + 1 {
		if p.Stale(packed[i]) || p.Stats().StaleBytes != 0 {
			t.Fatalf("the objects are stale when %d of them are gone", i)
		}
		p.Release(packed[i])
	}
	rest, kept := objects[len(objects)-minPatches+1:], packed[len(packed)-minPatches+1:]
	if s := p.Stats(); s.Stale != len(rest) || s.StaleBytes != size || s.DictionaryBytes != size || !p.Stale(kept[0]) {
		t.Fatalf("%+v, want %d stale objects, of a template of %d bytes", s, len(rest), size)
	}
	var again []Packed
	for i, data := range rest { // as the store does: all of them, with the dictionary of a neighbor
		again = append(again, p.Pack(data, kept[(i+1)%len(kept)].Dictionary()))
	}
	for i, old := range kept {
		p.Release(old)
		mustOpen(t, again[i], rest[i])
	}
	if s := p.Stats(); s.Stale != 0 || s.StaleBytes != 0 || s.DictionaryBytes != 0 || s.Objects != len(rest) {
		t.Errorf("%+v after they were packed again", s)
	}
	clear(packed)
	runtime.GC()
	if template.Value() != nil {
		t.Error("a template that nothing needs is still in memory")
	}
}

// TestTemplateOfAnUpdate packs the next versions of objects as patches of the same template.
func TestTemplateOfAnUpdate(t *testing.T) {
	p, packed := patched(t, ofOwner(t, 20))
	for i, next := range ofOwner(t, 20) {
		next[len(next)-1] ^= 1
		now := p.Pack(next, packed[i].Dictionary())
		p.Release(packed[i])
		mustOpen(t, now, next)
		if now.Dictionary() != packed[i].Dictionary() {
			t.Fatalf("version %d is packed in another way", i)
		}
	}
}

// TestNothingIsLeftOfABatch uses PackSmaller on neighbors that already take as little as they can.
func TestNothingIsLeftOfABatch(t *testing.T) {
	objects := ofOwner(t, 30)
	p, packed := patched(t, objects)
	before := p.Stats()
	for range 3 {
		p.templates.last = nil // so that it tries another template
		if again := p.PackSmaller(objects, packed); again != nil {
			t.Fatal("the objects are packed smaller than patches")
		}
	}
	if after := p.Stats(); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
	for i, object := range packed {
		if unneeded := p.Release(object); (unneeded == object.Dictionary()) != (i == len(packed)-1) {
			t.Errorf("object %d of %d is gone, and nothing needs %p", i, len(packed), unneeded)
		}
	}
	if s := p.Stats(); s != (Stats{Trainings: s.Trainings}) || len(p.templates.objects) > 0 {
		t.Errorf("%+v without any objects", s)
	}
}

// TestAdoptWithoutDiffer adopts patches, and packs similar objects, with a packer that makes no patches.
func TestAdoptWithoutDiffer(t *testing.T) {
	objects := ofOwner(t, 10)
	_, packed := patched(t, objects)
	var p Packer
	for i, object := range packed {
		p.Adopt(object)
		mustOpen(t, p.Pack(objects[i], object.Dictionary()), objects[i])
	}
	if s := p.Stats(); s.Objects != 20 || s.Dictionaries != 1 || s.DictionaryBytes != int64(packed[0].Dictionary().Size()) || s.StaleBytes != 0 {
		t.Errorf("%+v", s)
	}
	p.PackAll(objects)
}

// TestBrokenPatches flips each bit of patches, truncates them, and gives them other templates and lengths.
func TestBrokenPatches(t *testing.T) {
	objects := ofOwner(t, 10)
	_, packed := patched(t, objects)
	object := packed[7]
	whole := object.Bytes()
	for n := range whole {
		mustNotOpen(t, object.Dictionary(), whole[:n])
		for bit := range 8 {
			broken := bytes.Clone(whole)
			broken[n] ^= 1 << bit
			mustNotOpen(t, object.Dictionary(), broken)
		}
	}
	mustNotOpen(t, object.Dictionary(), append(bytes.Clone(whole), 0))
	other := bytes.Clone(object.Dictionary().Encoded())
	other[len(other)-1] ^= 1
	mustNotOpen(t, NewTemplate(other), whole)
	mustNotOpen(t, NewTemplate(objects[3]), whole)
	mustNotOpen(t, NewTemplate(nil), whole)
	mustNotOpen(t, nil, whole)
	if _, _, ok, err := (Packed{dict: NewTemplate(other), data: object.data}).Patch(); !ok || !errors.Is(err, ErrCorrupt) {
		t.Errorf("a patch of another template: %t, %v", ok, err)
	}
	_, withDictionary := trained(t, corpora[0].make(t, 200, 1))
	mustNotOpen(t, withDictionary[0].Dictionary(), whole)
	mustNotOpen(t, object.Dictionary(), withDictionary[0].Bytes())
	mustNotOpen(t, object.Dictionary(), new(Packer).Pack([]byte("short"), nil).Bytes())
	for _, p := range []Packed{withDictionary[0], {}, new(Packer).Pack([]byte("short"), nil)} {
		if _, _, ok, err := p.Patch(); ok || err != nil {
			t.Errorf("%d bytes that are no patch: %t, %v", p.Size(), ok, err)
		}
	}
}

// TestPatchesOfAnyLength shortens a length within an object, so that applying the patch temporarily
// needs more room than the object has, for each length of the object, including size classes of the
// allocator.
func TestPatchesOfAnyLength(t *testing.T) {
	pod := func(name, message int) []byte {
		return marshalAll(t, []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", name)}, Status: corev1.PodStatus{Message: strings.Repeat("m", message)}}})[0]
	}
	differ, template := podDiffer(t), NewTemplate(pod(1500, 300))
	for n := range 1100 {
		data := pod(n, 20)
		change, ok := differ(openedTo(len(data), data), template.samples, data, len(data))
		if !ok {
			t.Fatal("there is no patch")
		}
		mustOpen(t, sealPatch(template, change), data)
	}
}

// openedTo returns the start of the body of a patch that results in opened, but claims this length.
func openedTo(length int, opened []byte) []byte {
	return appendOpened(nil, length, crc32.Checksum(opened, castagnoli))
}

// TestPatchesThatLie have valid checksums, but wrong lengths and patches.
func TestPatchesThatLie(t *testing.T) {
	objects := ofOwner(t, 10)
	_, packed := patched(t, objects)
	template, change, _, _ := packed[7].Patch()
	n := len(objects[7])
	mustOpen(t, sealPatch(template, append(openedTo(n, objects[7]), change...)), objects[7])
	for _, length := range []int{0, 1, n - 1, n + 1, 2 * n, MaxOpened, MaxOpened + 1, math.MaxInt} {
		mustNotOpen(t, template, sealPatch(template, append(openedTo(length, objects[7]), change...)).Bytes())
	}
	mustNotOpen(t, template, sealPatch(template, append(openedTo(n, objects[6]), change...)).Bytes())
	r := testseed.Rand(t)
	for range 2000 {
		broken := bytes.Clone(change)
		for range 1 + r.IntN(3) {
			broken[r.IntN(len(broken))] = byte(r.Uint32())
		}
		broken = broken[:r.IntN(len(broken)+1)]
		opened, err := sealPatch(template, append(openedTo(n, objects[7]), broken...)).Open(nil)
		if err != nil && !errors.Is(err, ErrCorrupt) || err == nil && !bytes.Equal(opened, objects[7]) {
			t.Fatalf("%x: %v", broken, err)
		}
	}
	mustNotOpen(t, template, sealPatch(template, nil).Bytes())
	mustNotOpen(t, template, sealPatch(template, bytes.Repeat([]byte{0xff}, 11)).Bytes())
}

func TestTemplateBytes(t *testing.T) {
	objects := ofOwner(t, 10)
	_, packed := patched(t, objects)
	again, err := ParseDictionary(packed[0].Dictionary().AppendTo(nil))
	if err != nil || !again.IsTemplate() || !bytes.Equal(again.Encoded(), packed[0].Dictionary().Encoded()) {
		t.Fatalf("a template comes back as another one: %v", err)
	}
	for i, old := range packed {
		object, err := FromBytes(again, old.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		mustOpen(t, object, objects[i])
	}
	for _, n := range []int{0, 1, maxTemplate} {
		if d, err := ParseDictionary(append([]byte{0xff, 0xff}, make([]byte, n)...)); err != nil || !d.IsTemplate() || len(d.Encoded()) != n {
			t.Errorf("a template of %d bytes: %v", n, err)
		}
	}
}

// TestDecodedTemplates counts the uses of decoded templates.
func TestDecodedTemplates(t *testing.T) {
	d := NewTemplate([]byte("anything"))
	if _, kept := d.UseDecoded(); kept {
		t.Error("a new template is decoded")
	}
	if !d.KeepDecoded(1) || d.KeepDecoded(2) {
		t.Error("it is not the first one that is kept first")
	}
	for use := range TemplateUses + 2 {
		if object, kept := d.UseDecoded(); !kept || (object == 2) != (use < TemplateUses) {
			t.Errorf("use %d has %v, %t", use, object, kept)
		}
	}
	d.KeepDecoded(nil)
	if _, kept := d.UseDecoded(); kept || !d.KeepDecoded(4) {
		t.Error("what was dropped is still kept")
	}
	if first, second := NewTemplate(nil).NoteMissed(), d.NoteMissed(); first || second {
		t.Error("a template is wanted when it is missed once")
	}
	if !d.NoteMissed() {
		t.Error("a template is not wanted when it is missed twice")
	}
}

// randomBatch returns neighbors, or arbitrary objects.
func randomBatch(r *rand.Rand, real [][]byte) [][]byte {
	if from := r.IntN(len(real)); r.IntN(2) == 0 {
		return real[from : from+r.IntN(len(real)-from+1)]
	}
	batch := make([][]byte, r.IntN(200))
	for i := range batch {
		batch[i] = real[r.IntN(len(real))]
	}
	return batch
}
