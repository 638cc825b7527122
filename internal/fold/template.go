package fold

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// maxTemplate is the size up to which an encoded object may be a template.
	maxTemplate = 64 << 10
	// longestPatch bounds a patch to 1/longestPatch of its object. A longer one means that the
	// template is of another kind.
	longestPatch = 4
)

// Differ appends a patch to dst that turns base into data, both encoded objects. It returns false
// if they have little in common: if the patch would take more than most bytes. The patch must be
// exact: an error shows only when the bytes are asked for, not when the object is made from the
// decoded template. The packer calls it with its lock held: it must not panic or call the packer.
type Differ func(dst, base, data []byte, most int) ([]byte, bool)

// SetDiffer makes the packer store objects as patches of others where that takes less memory. Call
// it before packing anything.
func (p *Packer) SetDiffer(differ Differ) { p.differ = differ }

// Patch packs an encoded object as a patch of a template. It returns false if the two have little
// in common or are too large. The object is in no collection until Packer.AdoptPatches adds it.
func (d *Dictionary) Patch(differ Differ, data []byte) (Packed, bool) {
	if !d.IsTemplate() || !mayBePatch(d.samples) || !mayBePatch(data) {
		return Packed{}, false
	}
	return d.patch(differ, data, len(data)/longestPatch)
}

// CanBeTemplate reports whether an encoded object has a suitable size for a template.
func CanBeTemplate(object []byte) bool { return mayBePatch(object) }

// mayBePatch reports whether an object has a suitable size for a template or a patch.
func mayBePatch(data []byte) bool { return len(data) >= minPackable && len(data) <= maxTemplate }

// patch packs data as a patch of a template. It returns false if the patch would take more than most bytes.
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

// appendOpened appends the length and checksum of the opened bytes, which begin the body of a patch.
func appendOpened(dst []byte, length int, sum uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(dst, uint64(length)), sum)
}

// sealPatch returns a packed object with this body: the output of appendOpened, followed by the patch.
func sealPatch(template *Dictionary, body []byte) Packed {
	return sealSum(formPatch, template, body, template.patchSum(body))
}

// templates are the ones that objects of a collection need.
type templates struct {
	objects map[*Dictionary]int // number of objects that need each
	last    *Dictionary         // the last one used for neighbors; nil once it is dropped
	bytes   int64               // memory of all
	// staleBytes is the memory of templates that too few objects need, staleObjects the number of those objects.
	staleBytes   int64
	staleObjects int
}

// add registers a template, which no object needs yet.
func (t *templates) add(d *Dictionary) {
	if t.objects == nil {
		t.objects = make(map[*Dictionary]int)
	}
	if _, known := t.objects[d]; !known {
		t.objects[d] = 0
		t.bytes += int64(d.Size())
		t.countStale(d, 0, +1)
	}
}

// countObjects counts objects of a template, and drops it if none needs it any more.
func (t *templates) countObjects(d *Dictionary, n int) {
	before, known := t.objects[d]
	if !known {
		return // released more often than packed
	}
	t.countStale(d, before, -1)
	if now := before + n; now > 0 {
		t.objects[d] = now
		t.countStale(d, now, +1)
		return
	}
	delete(t.objects, d)
	t.bytes -= int64(d.Size())
	if t.last == d {
		t.last = nil
	}
}

// dropUnused drops the templates of objects that are not added to the collection after all.
func (t *templates) dropUnused(objects []Packed) {
	for _, packed := range objects {
		if packed.is(formPatch) && t.objects[packed.dict] == 0 {
			t.countObjects(packed.dict, 0)
		}
	}
}

// stale reports whether so few objects need the template that it takes more memory than it saves.
// An unregistered one is stale.
func (t *templates) stale(d *Dictionary) bool { return t.objects[d] < minPatches }

// countStale adds (+1) or removes (-1) a template with this many objects, if they are too few.
func (t *templates) countStale(d *Dictionary, objects, n int) {
	if objects < minPatches {
		t.staleBytes += int64(n * d.Size())
		t.staleObjects += n * objects
	}
}
