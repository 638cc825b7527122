package journal

import (
	"hash/maphash"
	"strings"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/object"
)

const (
	// longestPatch is how many times longer than its patch a state must be.
	longestPatch = 6
	// maxMisses is how many states in a row may not resemble the template of their family, until it gets another one.
	maxMisses = 3
	// minTemplate and maxTemplate are the lengths between which a state may be a template or a patch of one.
	minTemplate, maxTemplate = 256, 64 << 10
	// familySize is the size of a family with its place in the map.
	familySize = 56
	// templateSize is the size of a template without its text.
	templateSize = 32
)

// whole is a state that can be read without reading others of the object: a patch of the template
// of its family, or packed. It is immutable.
type whole struct {
	template *template
	patch    string
	packed   *fold.Packed // if there is no template
}

// template is a state of one of a family's objects, which others resemble.
type template struct {
	text string
	uses int // number of wholes that need it; the writer's
}

// open appends the state to dst.
func (w whole) open(dst []byte) ([]byte, error) {
	if w.template == nil {
		return w.packed.Open(dst)
	}
	return apply(dst, []byte(w.template.text), w.patch)
}

// wholes makes and counts the whole states of a journal. It is for one goroutine.
type wholes struct {
	packer *fold.Packer
	differ differ
	seed   maphash.Seed
	// families holds a family for each prefix that the name of an object has: pods of one workload
	// resemble each other. Its key is a hash; two prefixes that share it pack worse, and nothing
	// else.
	families map[uint64]family
	bytes    int64 // of wholes, templates and families
}

type family struct {
	template *template
	members  int32 // number of wholes
	misses   int32 // number of states in a row that did not resemble the template
}

func newWholes() *wholes {
	return &wholes{packer: new(fold.Packer), seed: maphash.MakeSeed(), families: map[uint64]family{}}
}

// family returns the number of the family of an object, and false if it has none.
func (s *wholes) family(key object.Key) (number uint64, ok bool) {
	i := strings.LastIndexByte(key.Name, '-')
	if i < 0 {
		return 0, false
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(key.Namespace)
	_ = h.WriteByte('/')
	_, _ = h.WriteString(key.Name[:i])
	return h.Sum64(), true
}

// keep returns a state of an object as a whole. like is the object's state before, or nil.
func (s *wholes) keep(key object.Key, data []byte, like *whole) (w whole) {
	number, ok := s.family(key)
	if !ok {
		return s.pack(data, like)
	}
	f, known := s.families[number]
	if !known {
		s.bytes += familySize
	}
	f.members++
	if f.members > 1 && len(data) >= minTemplate && len(data) <= maxTemplate {
		w = s.patch(&f, data)
	}
	s.families[number] = f
	if w.template == nil {
		w = s.pack(data, like)
	}
	return w
}

// patch returns a state as a patch of the template of its family, or the zero whole if it does not resemble that.
func (s *wholes) patch(f *family, data []byte) whole {
	if f.template == nil || f.misses >= maxMisses {
		s.dropUnused(f.template)
		f.template, f.misses = &template{text: string(data)}, 0
		s.bytes += f.template.size()
	}
	patch := s.differ.patch([]byte(f.template.text), data)
	if len(patch) > len(data)/longestPatch {
		f.misses++
		return whole{}
	}
	f.misses = 0
	f.template.uses++
	s.bytes += roundUp(len(patch))
	return whole{template: f.template, patch: patch}
}

// dropUnused stops counting a template that no whole needs.
func (s *wholes) dropUnused(t *template) (dropped bool) {
	if t == nil || t.uses > 0 {
		return false
	}
	s.bytes -= t.size()
	return true
}

func (t *template) size() int64 { return templateSize + roundUp(len(t.text)) }

func (s *wholes) pack(data []byte, like *whole) whole {
	var dict *fold.Dictionary
	if like != nil && like.packed != nil {
		dict = like.packed.Dictionary()
	}
	packed := s.packer.Pack(data, dict)
	w := whole{packed: &packed}
	s.bytes += w.packedSize()
	return w
}

// size is the memory of the whole, without what it shares.
func (w whole) size() int64 {
	if w.template == nil {
		return w.packedSize()
	}
	return roundUp(len(w.patch))
}

func (w whole) packedSize() int64 { return 24 + int64(w.packed.HeapSize()) }

// release says that a whole is not needed any more. Readers that have it can still open it.
func (s *wholes) release(key object.Key, w whole) {
	if w.template == nil {
		s.bytes -= w.packedSize()
		s.packer.Release(*w.packed)
	} else {
		s.bytes -= roundUp(len(w.patch))
		w.template.uses--
	}
	number, ok := s.family(key)
	if !ok {
		return
	}
	f := s.families[number]
	f.members--
	if s.dropUnused(w.template) && f.template == w.template {
		f.template = nil
	}
	if s.families[number] = f; f.members == 0 {
		s.dropUnused(f.template)
		delete(s.families, number)
		s.bytes -= familySize
	}
}

// tables is the memory of what the packer needs besides the wholes. It takes a while to compute.
func (s *wholes) tables() int64 {
	stats := s.packer.Stats()
	return stats.DictionaryBytes + stats.EncoderBytes + stats.SampleBytes
}
