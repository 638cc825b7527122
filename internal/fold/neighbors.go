package fold

import "bytes"

const (
	// minPatches is how many objects a registered template must serve to be worth its memory.
	minPatches = 4
	// templateWorth is how many bytes of template one saved byte justifies, because patches open much faster.
	templateWorth = 2
	// likelyRatio is an upper bound of the ratio of packed to opened bytes to expect without a template.
	likelyRatio = 0.25
)

// worth is what the patches of one template save.
type worth struct{ objects, saved int }

// pays reports whether a template is worth its memory.
func (w worth) pays(template *Dictionary) bool {
	return w.objects >= minPatches && w.saved*templateWorth >= template.Size()
}

// worthOf returns what each template saves for its patches among objects.
func (p *Packer) worthOf(objects []Packed) map[*Dictionary]worth {
	all := make(map[*Dictionary]worth)
	for _, packed := range objects {
		if packed.is(formPatch) {
			w := all[packed.dict]
			all[packed.dict] = worth{w.objects + 1, w.saved + p.saves(packed)}
		}
	}
	return all
}

// saves estimates how much less memory a patch takes than the object packed in another way.
func (p *Packer) saves(packed Packed) int {
	return allocated(headerSize+p.expectedWithout(packed.Len())) - packed.HeapSize()
}

// expectedWithout estimates the packed size of an object of this size without a template.
func (p *Packer) expectedWithout(size int) int {
	ratio := likelyRatio
	if p.current != nil {
		ratio = min(ratio, p.current.expected())
	}
	return int(float64(size) * ratio)
}

// AdoptPatches adds patches to the collection if it already has their template, or if enough of
// objects share the template for that to pay off. It reports which were added. Objects that are not
// patches are not.
func (p *Packer) AdoptPatches(objects []Packed) (adopted []bool) {
	adopted = make([]bool, len(objects))
	p.mu.Lock()
	defer p.mu.Unlock()
	worth := p.worthOf(objects)
	for i, packed := range objects {
		if w := worth[packed.dict]; packed.is(formPatch) && (!p.templates.stale(packed.dict) || w.pays(packed.dict)) {
			p.templates.add(packed.dict)
			adopted[i] = true
		}
	}
	for i, packed := range objects { // after all were decided, or the first ones would influence the others
		if adopted[i] {
			p.countObject(packed, +1)
		}
	}
	return adopted
}

// AdoptPatch is AdoptPatches for one object.
func (p *Packer) AdoptPatch(object Packed) (adopted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !object.is(formPatch) || p.templates.stale(object.dict) {
		return false
	}
	p.countObject(object, +1)
	return true
}

// patchNeighbors packs neighbors as patches where that takes less memory, registering the templates
// they need. The others stay zero in the result.
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

// grouping finds groups of consecutive objects that resemble the first of the group.
type grouping struct {
	*Packer
	objects [][]byte
	out     []Packed
	// template is that of the last group, which may fit the next objects too. first is the
	// candidate template of a new group, nil if there is none; members and patches are the group so
	// far, and saved is what the patches save.
	template *Dictionary
	first    *Dictionary
	members  []int
	patches  []Packed
	saved    int
}

// next assigns the i-th object to a group: the group of the preceding objects, or a new one that it begins.
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
		if packed, ok := g.template.Patch(g.differ, data); ok {
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

// join adds the i-th object to the new group, if it resembles the first one.
func (g *grouping) join(i int) bool {
	packed, ok := g.first.Patch(g.differ, g.objects[i])
	if ok {
		g.members, g.patches = append(g.members, i), append(g.patches, packed)
		g.saved += g.saves(packed)
	}
	return ok
}

// end ends the new group, and keeps its template if that pays off.
func (g *grouping) end() {
	if g.first == nil {
		return
	}
	if (worth{len(g.members), g.saved}).pays(g.first) {
		g.first.samples = bytes.Clone(g.first.samples) // until now it was the caller's
		g.templates.add(g.first)
		g.template = g.first
		for i, at := range g.members {
			g.out[at] = g.patches[i]
		}
	}
	g.first = nil
}
