package fold

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// maxTemplate is the size up to which an encoded object may be a template.
	maxTemplate = 64 << 10
	// longestPatch is which part of an object its patch may be: one in so many. What is longer was made of an object of another kind.
	longestPatch = 4
)

// Differ appends a patch to dst that makes data of base, both encoded objects. It returns false if they have little in common: if the patch
// would have more than most bytes. The patch has to be exact: that it is not comes out only when the bytes are asked for, not when the object is
// made of the decoded template. The packer calls it with its lock held: it must not panic, nor call the packer.
type Differ func(dst, base, data []byte, most int) ([]byte, bool)

// SetDiffer makes the packer know objects as patches of others where that takes less memory. It is called before anything is packed.
func (p *Packer) SetDiffer(differ Differ) { p.differ = differ }

// Patch packs an encoded object as what differs from a template. It returns false if the two have little in common, or are too large. The object is of no
// collection until Packer.AdoptPatches takes it.
func (d *Dictionary) Patch(differ Differ, data []byte) (Packed, bool) {
	if !d.IsTemplate() || !mayBePatch(d.samples) || !mayBePatch(data) {
		return Packed{}, false
	}
	return d.patch(differ, data, len(data)/longestPatch)
}

// CanBeTemplate reports whether an encoded object has the size of a template.
func CanBeTemplate(object []byte) bool { return mayBePatch(object) }

// mayBePatch reports whether an object has the size of one that may be a template or a patch.
func mayBePatch(data []byte) bool { return len(data) >= minPackable && len(data) <= maxTemplate }

// patch packs data as a patch of a template. It returns false if that would take more than most bytes.
func (d *Dictionary) patch(differ Differ, data []byte, most int) (Packed, bool) {
	buf := getBuffer(0)
	defer putBuffer(buf)
	body := appendOpened(*buf, len(data), crc32.Checksum(data, castagnoli))
	body, ok := differ(body, d.samples, data, most)
	*buf = body[:0]
	if !ok {
		return Packed{}, false
	}
	return sealPatch(d, body), true
}

// appendOpened appends the length and the checksum of the opened bytes, with which the body of a patch begins.
func appendOpened(dst []byte, length int, sum uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(dst, uint64(length)), sum)
}

// sealPatch returns a packed object of this body: what appendOpened appends, and the patch.
func sealPatch(template *Dictionary, body []byte) Packed {
	return sealSum(formPatch, template, body, template.patchSum(body))
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
