package fold

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

const (
	// maxTemplate is the size up to which an encoded object may be a template.
	maxTemplate = 64 << 10
	// minPatches is how many objects a template must serve to be worth its memory, once it is there.
	minPatches = 4
	// templateWorth is how many bytes of a template one saved byte is worth, because patches open much faster.
	templateWorth = 2
	// likelyRatio is the least ratio of packed to opened bytes that is expected of objects without a template.
	likelyRatio = 0.25
	// longestPatch is which part of an object its patch may be: one in so many. What is longer was made of an object of another kind.
	longestPatch = 4
)

// Differ appends a patch to dst that makes data of base, both encoded objects. It returns false if they have little in common: if the patch
// would have more than most bytes. The patch has to be exact: that it is not comes out only when the bytes are asked for, not when the object is
// made of the decoded template. The packer calls it with its lock held: it must not panic, nor call the packer.
type Differ func(dst, base, data []byte, most int) ([]byte, bool)

// SetDiffer makes the packer know objects as patches of others where that takes less memory. It is called before anything is packed.
func (p *Packer) SetDiffer(differ Differ) { p.differ = differ }

// patchOf packs data as a patch of a template. It returns false if that would take more than most bytes.
func (p *Packer) patchOf(template *Dictionary, data []byte, most int) (Packed, bool) {
	buf := getBuffer(0)
	defer putBuffer(buf)
	body := appendOpened(*buf, len(data), crc32.Checksum(data, castagnoli))
	body, ok := p.differ(body, template.samples, data, most)
	*buf = body[:0]
	if !ok {
		return Packed{}, false
	}
	return sealPatch(template, body), true
}

// appendOpened appends the length and the checksum of the opened bytes, with which the body of a patch begins.
func appendOpened(dst []byte, length int, sum uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(dst, uint64(length)), sum)
}

// sealPatch returns a packed object of this body: what appendOpened appends, and the patch.
func sealPatch(template *Dictionary, body []byte) Packed {
	return sealSum(formPatch, template, body, template.patchSum(body))
}

// expectedWithout is how many bytes an object is expected to take without a template.
func (p *Packer) expectedWithout(data []byte) int {
	ratio := likelyRatio
	if p.current != nil {
		ratio = min(ratio, p.current.expected())
	}
	return int(float64(len(data)) * ratio)
}

// patchNeighbors packs those of the objects, which are neighbors, as patches that take less memory so, with the templates that they need. The others stay
// zero in the result.
func (p *Packer) patchNeighbors(objects [][]byte) []Packed {
	g := grouping{Packer: p, objects: objects, out: make([]Packed, len(objects)), template: p.templates.last}
	if p.differ == nil {
		return g.out
	}
	for i := range objects {
		g.next(i)
	}
	g.end()
	p.templates.last = g.template
	return g.out
}

// grouping finds groups of objects that follow one another and resemble the first one of them.
type grouping struct {
	*Packer
	objects [][]byte
	out     []Packed
	// template is that of the last group, which the next objects may belong to as well. first is nil until one has a new group, of which members are the
	// patches so far and saved is what they save.
	template *Dictionary
	first    *Dictionary
	members  []int
	patches  []Packed
	saved    int
}

// next puts the i-th object into a group: that of the objects before it, or a new one, of which it is the first.
func (g *grouping) next(i int) {
	data := g.objects[i]
	if !mayBePatch(data) {
		return
	}
	if g.first != nil {
		if g.join(i) {
			return
		}
		g.end()
	}
	if g.template != nil {
		if packed, ok := g.patchOf(g.template, data, len(data)/longestPatch); ok {
			g.out[i] = packed
			return
		}
	}
	g.first = asTemplate(data)
	g.members, g.patches, g.saved = g.members[:0], g.patches[:0], 0
	if !g.join(i) {
		g.first = nil
	}
}

// mayBePatch reports whether an object has the size of one that may be a template or a patch.
func mayBePatch(data []byte) bool { return len(data) >= minPackable && len(data) <= maxTemplate }

// join adds the i-th object to the new group, if it resembles the first one.
func (g *grouping) join(i int) bool {
	data := g.objects[i]
	packed, ok := g.patchOf(g.first, data, len(data)/longestPatch)
	if ok {
		g.members, g.patches = append(g.members, i), append(g.patches, packed)
		g.saved += allocated(headerSize+g.expectedWithout(data)) - packed.HeapSize()
	}
	return ok
}

// end ends the new group, which gets its template if that pays.
func (g *grouping) end() {
	if g.first == nil {
		return
	}
	if len(g.members) >= minPatches && g.saved*templateWorth >= g.first.Size() {
		g.first.samples = bytes.Clone(g.first.samples) // until now it was the caller's
		g.templates.add(g.first)
		g.template = g.first
		for i, at := range g.members {
			g.out[at] = g.patches[i]
		}
	}
	g.first = nil
}

// templates are those that objects of a collection need.
type templates struct {
	objects map[*Dictionary]int // how many need each
	last    *Dictionary         // the one that was used last for neighbors; nil if that is gone
	bytes   int64               // what all take
	// thinBytes is what those take that few objects need, thinObjects how many objects that are.
	thinBytes   int64
	thinObjects int
}

// add makes a template known, which no object needs yet.
func (t *templates) add(d *Dictionary) {
	if t.objects == nil {
		t.objects = make(map[*Dictionary]int)
	}
	if _, known := t.objects[d]; !known {
		t.objects[d] = 0
		t.bytes += int64(d.Size())
		t.countThin(d, 0, +1)
	}
}

// enter counts objects at a template, and forgets it if none needs it then.
func (t *templates) enter(d *Dictionary, n int) {
	before, known := t.objects[d]
	if !known {
		return // released more often than packed
	}
	t.countThin(d, before, -1)
	if now := before + n; now > 0 {
		t.objects[d] = now
		t.countThin(d, now, +1)
		return
	}
	delete(t.objects, d)
	t.bytes -= int64(d.Size())
	if t.last == d {
		t.last = nil
	}
}

// dropUnused forgets the templates of objects that do not come into the collection after all.
func (t *templates) dropUnused(objects []Packed) {
	for _, packed := range objects {
		if packed.is(formPatch) && t.objects[packed.dict] == 0 {
			t.enter(packed.dict, 0)
		}
	}
}

// thin reports whether so few objects need the template that it takes more memory than it saves. One that is not known is thin.
func (t *templates) thin(d *Dictionary) bool { return t.objects[d] < minPatches }

// countThin adds (+1) or takes away (-1) a template that so many objects need, if these are few.
func (t *templates) countThin(d *Dictionary, objects, n int) {
	if objects < minPatches {
		t.thinBytes += int64(n * d.Size())
		t.thinObjects += n * objects
	}
}
