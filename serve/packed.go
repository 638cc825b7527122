package serve

import (
	"fmt"
	"iter"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

// packing keeps the objects of one collection packed: as patches of others that resemble them, or with a dictionary.
type packing struct {
	packer   fold.Packer
	protobuf bool
	// codec makes the patches, and marks what it can compare; nil for JSON.
	codec *codec.Objects[object.Object]
}

func newPacking(t *protocol.ResourceType) (*packing, error) {
	p := &packing{protobuf: t.BuiltIn}
	if !t.BuiltIn {
		return p, nil
	}
	example, err := scheme.Scheme.New(t.GroupVersionKind())
	if err == nil {
		p.codec, err = codec.NewAs[object.Object](reflect.TypeOf(example), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("objects cannot be packed: %w", err)
	}
	p.packer.SetDiffer(p.codec.Diff)
	return p, nil
}

// startPacking is called before there are objects.
func (c *collection) startPacking(t *protocol.ResourceType) error {
	p, err := newPacking(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packing = p
	return err
}

// data returns the bytes that are packed for an object.
func (p *packing) data(raw *codec.Raw) []byte {
	data, _ := raw.Encoding()
	if p.codec != nil {
		return codec.AppendReceived(nil, data)
	}
	return data
}

// pack packs an object. before is its earlier state, which is released, or nil.
func (p *packing) pack(raw *codec.Raw, before *packed) *packed {
	var like *fold.Dictionary
	if before != nil {
		like = before.pack.Dictionary()
	}
	o := p.unfilled(raw)
	o.pack = p.packer.Pack(p.data(raw), like)
	p.release(before)
	return o
}

// unfilled returns a packed object whose bytes are yet to be packed.
func (p *packing) unfilled(raw *codec.Raw) *packed {
	version, _ := protocol.ParseVersion(raw.ResourceVersion) // a collection keeps no others
	return &packed{ObjectMeta: noMeta, packing: p, version: version}
}

// release forgets an object, which may be nil.
func (p *packing) release(o *packed) {
	if o != nil {
		p.packer.Release(o.pack)
	}
}

// shared returns what the objects take together, besides each of them. Nearly all samples are objects that count.
func (p *packing) shared() int64 {
	stats := p.packer.Stats()
	return stats.DictionaryBytes + stats.EncoderBytes
}

// packed is an object that is kept packed. Its version is at hand; all else is opened when it is asked for.
type packed struct {
	*metav1.ObjectMeta // noMeta, of which nothing is used
	packing            *packing
	pack               fold.Packed
	version            uint64
}

var noMeta = &metav1.ObjectMeta{}

// open returns the object.
func (o *packed) open() *codec.Raw {
	data, err := o.pack.Open(nil)
	if err == nil {
		if o.packing.codec != nil {
			data = codec.Received(data)
		}
		var raw *codec.Raw
		if raw, err = codec.ParseRaw(data, o.packing.protobuf); err == nil {
			return raw
		}
	}
	panic(fmt.Sprintf("serve: an object in memory is broken: %v", err)) // its checksum was right when it was packed
}

// GetNamespace is part of metav1.Object, as are the methods that follow.
func (o *packed) GetNamespace() string { return o.open().Namespace }

// GetName implements metav1.Object.
func (o *packed) GetName() string { return o.open().Name }

// GetUID implements metav1.Object.
func (o *packed) GetUID() types.UID { return o.open().UID }

// GetLabels implements metav1.Object.
func (o *packed) GetLabels() map[string]string { return o.open().Labels }

// GetResourceVersion implements metav1.Object.
func (o *packed) GetResourceVersion() string { return format(o.version) }

// GetObjectKind implements runtime.Object.
func (o *packed) GetObjectKind() schema.ObjectKind { return o.open().GetObjectKind() }

// DeepCopyObject implements runtime.Object. Nothing of it can be changed.
func (o *packed) DeepCopyObject() runtime.Object { return o }

// Encoding implements protocol.Encoded.
func (o *packed) Encoding() (data []byte, isProtobuf bool) { return o.open().Encoding() }

// EncodedSize implements protocol.Sized.
func (o *packed) EncodedSize() int {
	size := o.pack.Len()
	if o.packing.codec != nil {
		size -= codecHead
	}
	return size
}

// codecHead is what a codec puts before the bytes that came: an empty kind.
const codecHead = 2

// WithResourceVersion implements protocol.Encoded.
func (o *packed) WithResourceVersion(version string) object.Object {
	return o.open().WithResourceVersion(version)
}

var (
	_ protocol.Encoded = (*packed)(nil)
	_ protocol.Sized   = (*packed)(nil)
)

// opened returns an object of a collection as it came; nil if there is none.
func opened(o object.Object) *codec.Raw {
	switch o := o.(type) {
	case *codec.Raw:
		return o
	case *packed:
		return o.open()
	}
	return nil
}

// holder is a collection as a reflector fills it. Lists are packed while they come.
type holder struct {
	intake.Open[*codec.Raw]
	collection *collection
}

func newHolder(c *collection) holder {
	return holder{intake.Open[*codec.Raw]{Previous: c.held, Sink: c}, c}
}

// Gather implements intake.Holder.
func (h holder) Gather(n int) intake.Gathering[*codec.Raw] { return h.collection.gather(n) }

// gather returns a Gathering for about n objects.
func (c *collection) gather(n int) intake.Gathering[*codec.Raw] {
	if c.packing == nil {
		return intake.NewGathering[*codec.Raw](n)
	}
	return &gathering{collection: c, packing: c.packing}
}

// gathering packs the objects of a list, those that come together with each other. Objects that have not changed are
// those of the collection.
type gathering struct {
	collection *collection
	packing    *packing
	paths      []string
	items      []*packed
	// unfilled are those of the items that are not packed yet, with their bytes.
	unfilled []*packed
	data     [][]byte
	size     int  // of data
	taken    bool // by the collection
}

const (
	// packTogether is how many objects are packed at a time, and packBytes how many bytes.
	packTogether = 500
	packBytes    = 2 << 20
)

func (g *gathering) Len() int             { return len(g.items) }
func (g *gathering) Key(i int) object.Key { return keyOf(g.paths[i]) }
func (g *gathering) Version(i int) string { return g.items[i].GetResourceVersion() }

func (g *gathering) Add(r intake.Received[*codec.Raw]) bool {
	g.paths = append(g.paths, pathOf(r.Key()))
	g.items = append(g.items, g.item(r))
	return true
}

// item returns the packed object, which may get its bytes later.
func (g *gathering) item(r intake.Received[*codec.Raw]) *packed {
	if r.Unchanged {
		if held := g.collection.packedAt(r.Key()); held != nil && held.GetResourceVersion() == r.Version() {
			return held
		}
	}
	o, data := g.packing.unfilled(r.Object), g.packing.data(r.Object)
	g.unfilled, g.data, g.size = append(g.unfilled, o), append(g.data, data), g.size+len(data)
	if len(g.data) >= packTogether || g.size >= packBytes {
		g.fill()
	}
	return o
}

// fill packs what has come.
func (g *gathering) fill() {
	for i, pack := range g.packing.packer.PackAll(g.data) {
		g.unfilled[i].pack = pack
	}
	clear(g.unfilled)
	clear(g.data)
	g.unfilled, g.data, g.size = g.unfilled[:0], g.data[:0], 0
}

func (g *gathering) Set(i int, r intake.Received[*codec.Raw]) bool {
	g.fill()
	g.drop(i)
	g.items[i] = g.item(r)
	return true
}

func (g *gathering) Remove(i int) {
	g.fill()
	g.drop(i)
	last := len(g.items) - 1
	g.paths[i], g.items[i] = g.paths[last], g.items[last]
	g.shorten(last)
}

func (g *gathering) Truncate(n int) {
	g.fill()
	for i := n; i < len(g.items); i++ {
		g.drop(i)
	}
	g.shorten(n)
}

func (g *gathering) shorten(n int) {
	clear(g.items[n:])
	clear(g.paths[n:])
	g.items, g.paths = g.items[:n], g.paths[:n]
}

// drop releases an item that is not the collection's.
func (g *gathering) drop(i int) {
	if g.collection.packedAt(keyOf(g.paths[i])) != g.items[i] {
		g.packing.release(g.items[i])
	}
}

func (g *gathering) Collection() object.Collection[*codec.Raw] {
	g.fill()
	return packedItems{g}
}

func (g *gathering) Close() (kept string) {
	if !g.taken {
		g.Truncate(0)
	}
	return ""
}

// packedItems are the objects of a gathering.
type packedItems struct{ *gathering }

// All implements object.Collection.
func (p packedItems) All() iter.Seq2[object.Key, *codec.Raw] {
	return func(yield func(object.Key, *codec.Raw) bool) {
		for i, o := range p.items {
			if !yield(p.Key(i), o.open()) {
				return
			}
		}
	}
}

// packedAt returns the packed object under a key; nil if there is none.
func (c *collection) packedAt(key object.Key) *packed {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, _ := c.objects[key.String()].(*packed)
	return o
}

// keep returns an object as the collection keeps it. before is its earlier state, or nil. The lock is held.
func (c *collection) keep(raw *codec.Raw, before object.Object) object.Object {
	if c.packing == nil {
		return raw
	}
	was, _ := before.(*packed)
	return c.packing.pack(raw, was)
}

// drop forgets an object that the collection has kept. The lock is held.
func (c *collection) drop(o object.Object) {
	if o, ok := o.(*packed); ok {
		c.packing.release(o)
	}
}

// stateOf returns the objects of a list by path, as the collection keeps them, and about what they take.
func (c *collection) stateOf(objects object.Collection[*codec.Raw]) (state map[string]object.Object, size int64) {
	state = make(map[string]object.Object, objects.Len())
	if items, ok := objects.(packedItems); ok {
		for i, path := range items.paths {
			state[path] = items.items[i]
			size += objectSize(items.items[i])
		}
		return state, size
	}
	for key, o := range objects.All() {
		state[key.String()] = o
		size += objectSize(o)
	}
	return state, size
}

// take makes a state that stateOf has returned that of the collection. The lock is held.
func (c *collection) take(objects object.Collection[*codec.Raw], state map[string]object.Object) {
	if items, ok := objects.(packedItems); ok {
		items.taken = true
		for path, o := range c.objects {
			if state[path] != o {
				c.drop(o)
			}
		}
	}
	c.objects, c.paths, c.lists = state, nil, [2]cachedList{}
}

// pathOf returns the path of an object, which shares no memory with the key.
func pathOf(key object.Key) string {
	if key.Namespace == "" {
		return strings.Clone(key.Name)
	}
	return key.String()
}

// keyOf is the inverse of pathOf.
func keyOf(path string) object.Key {
	if namespace, name, ok := strings.Cut(path, "/"); ok {
		return object.Key{Namespace: namespace, Name: name}
	}
	return object.Key{Name: path}
}
