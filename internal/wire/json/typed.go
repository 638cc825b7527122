package json

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/intern"
)

// Typed is a wire.Decoder for Go structs: a user's types for custom resources,
// metav1.PartialObjectMetadata, or built-in types from a server that answers in JSON. Create one
// with NewTyped. Objects share the parts in which they are equal, and are read-only, unless
// Options.NoSharing is set; see package intern.
type Typed[T runtime.Object] struct {
	elem reflect.Type
	// largest is the size of the largest struct that an object can hold any number of.
	largest int

	mu    sync.Mutex // guards what follows; only Stats ever waits for it
	cut   cutter
	stats wire.Stats
	// intern is nil if objects share nothing.
	intern       *intern.Interner
	onStrayWrite func(field string)
}

// NewTyped returns a decoder for T, which must be a pointer to a struct. It returns an error if T
// is not, or if a path in opts.Trim is invalid.
func NewTyped[T runtime.Object](opts wire.Options) (*Typed[T], error) {
	return NewTypedAs[T](reflect.TypeFor[T](), opts)
}

// NewTypedAs is NewTyped for a type known only at run time, which must be a pointer to a struct
// that implements the interface T.
func NewTypedAs[T runtime.Object](pointer reflect.Type, opts wire.Options) (*Typed[T], error) {
	if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("cannot decode JSON into %s: want a pointer to a struct", pointer)
	}
	trim, err := newTrim(opts.Trim)
	if err != nil {
		return nil, err
	}
	d := &Typed[T]{elem: pointer.Elem(), largest: largestOf(pointer.Elem()), cut: cutter{trim: trim}, onStrayWrite: opts.OnStrayWrite}
	if !opts.NoSharing && !opts.KeepBytes && intern.CanShare(d.elem) {
		d.intern = intern.New(opts.MaxTableBytes)
	}
	return d, nil
}

// largestParts caches the results of largestOf: a program has many decoders of few types.
var largestParts sync.Map // of int by reflect.Type

// largestOf is largestPart of a whole type.
func largestOf(t reflect.Type) int {
	if size, ok := largestParts.Load(t); ok {
		return size.(int)
	}
	size := largestPart(t, map[reflect.Type]bool{})
	largestParts.Store(t, size)
	return size
}

// largestPart returns the size of the largest struct that t holds in slices, in maps or behind pointers.
func largestPart(t reflect.Type, seen map[reflect.Type]bool) (size int) {
	if seen[t] {
		return 0
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			size = max(size, largestPart(f.Type, seen))
		}
	case reflect.Array:
		size = largestPart(t.Elem(), seen)
	case reflect.Slice, reflect.Map, reflect.Pointer:
		size = max(int(t.Elem().Size()), largestPart(t.Elem(), seen))
	}
	return size
}

var errNoObject = errors.New("got another value instead of an object")

// Decode decodes one object as sigs.k8s.io/json does: names are case-sensitive, unknown ones are
// skipped, and the last of duplicates wins. The kind is not checked. Anything but a JSON object is
// an error, null included.
func (d *Typed[T]) Decode(data []byte, previous T) (object T, err error) {
	object, stray, err := d.decodeLocked(data, previous)
	if d.onStrayWrite != nil {
		for _, field := range stray {
			d.onStrayWrite(field)
		}
	}
	if err != nil {
		var zero T
		return zero, fmt.Errorf("decode JSON object into %s: %w", d.elem, redact.Decoding(err))
	}
	return object, nil
}

func (d *Typed[T]) decodeLocked(data []byte, previous T) (object T, stray []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if object, err = d.decode(data); err != nil {
		return object, nil, err
	}
	if d.intern != nil {
		d.intern.Share(reflect.ValueOf(object), reflect.ValueOf(previous))
		stray = d.intern.TakeStray()
	}
	d.stats.Objects++
	d.stats.Bytes += uint64(len(data))
	return object, stray, nil
}

// decode turns a panic, for example in a type's own UnmarshalJSON, into an error.
func (d *Typed[T]) decode(data []byte) (object T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &wire.PanicError{Value: r, Stack: debug.Stack()}
			d.cut = cutter{trim: d.cut.trim}
		}
	}()
	text, err := d.cut.trimmed(data)
	if err != nil {
		return object, err
	}
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return object, errNoObject
	}
	if err := d.checkExpansion(text); err != nil {
		return object, err
	}
	object = reflect.New(d.elem).Interface().(T)
	return object, kjson.UnmarshalCaseSensitivePreserveInts(text, object)
}

// checkExpansion refuses a document of many empty structs, which could take far more memory than its text.
func (d *Typed[T]) checkExpansion(text []byte) error {
	allowed := wire.Allowance(len(text))
	if (bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("null")))*d.largest <= allowed {
		return nil
	}
	defer d.cut.tape.release()
	if err := d.cut.tape.parse(text); err != nil { // which distinguishes braces and nulls in strings
		return err
	}
	structs := 0
	for _, n := range d.cut.tape.nodes {
		if n.kind == kindBeginObject || n.kind == kindNull {
			structs++
		}
	}
	if structs*d.largest > allowed {
		return &wire.ExpansionError{Size: len(text)}
	}
	return nil
}

// Recheck implements wire.Decoder. There is nothing to do: parts are compared each time.
func (d *Typed[T]) Recheck() {}

// Peek implements wire.Decoder.
func (d *Typed[T]) Peek(data []byte) (wire.Meta, bool) { return peek(data) }

// Stats implements wire.Decoder. Fields are not counted.
func (d *Typed[T]) Stats() wire.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	stats := d.stats
	if d.intern != nil {
		shared := d.intern.Stats()
		stats.Lookups, stats.Hits, stats.SharedBytes, stats.Corrupted = shared.Lookups, shared.Hits, shared.SharedBytes, shared.Corrupted
		stats.TableBytes, stats.TableEntries = shared.TableBytes, shared.TableEntries
	}
	return stats
}

// cutter removes trimmed fields from a document before it is decoded.
type cutter struct {
	trim *trimNode
	tape tape
	data []byte
	out  []byte
}

// maxScratch bounds the buffer that is kept between documents.
const maxScratch = 1 << 20

// trimmed returns data without the trimmed fields. The result is valid until the next call.
func (c *cutter) trimmed(data []byte) ([]byte, error) {
	if c.trim == nil {
		return data, nil
	}
	defer c.tape.release()
	if err := c.tape.parse(data); err != nil {
		return nil, err
	}
	if cap(c.out) > maxScratch {
		c.out = nil
	}
	c.data, c.out = data, c.out[:0]
	c.value(0, c.trim)
	c.data = nil
	return c.out, nil
}

func (c *cutter) value(i int32, trim *trimNode) {
	n := &c.tape.nodes[i]
	switch {
	case trim != nil && n.kind == kindBeginObject:
		c.object(i, trim)
	case trim != nil && n.kind == kindBeginArray:
		c.array(i, trim)
	default:
		c.out = append(c.out, c.data[n.start:n.end]...)
	}
}

func (c *cutter) object(i int32, trim *trimNode) {
	c.out = append(c.out, '{')
	first := len(c.out)
	for at := i + 1; at < c.tape.nodes[i].next; at = c.tape.nodes[at+1].next {
		name := c.data[c.tape.nodes[at].start:c.tape.nodes[at].end]
		member := trim.member(unquote(name))
		if member.trims() {
			continue
		}
		if len(c.out) > first {
			c.out = append(c.out, ',')
		}
		c.out = append(append(c.out, name...), ':')
		c.value(at+1, member)
	}
	c.out = append(c.out, '}')
}

func (c *cutter) array(i int32, trim *trimNode) {
	c.out = append(c.out, '[')
	for at, first := i+1, true; at < c.tape.nodes[i].next; at, first = c.tape.nodes[at].next, false {
		if !first {
			c.out = append(c.out, ',')
		}
		c.value(at, trim)
	}
	c.out = append(c.out, ']')
}
