package proto

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
)

// ErrNotSupported is in the chain of the error of New for a type that has no protobuf encoding. Such a type has to
// be read as JSON.
var ErrNotSupported = errors.New("the type has no protobuf encoding; ask the server for JSON")

// errIrregular says that the bytes use freedoms of protobuf that no API server uses, so that the object has to be
// decoded again in plain mode.
var errIrregular = errors.New("protobuf: irregular message")

// maxDepth is the deepest nesting of messages. API types nest about 15 deep.
const maxDepth = 10_000

// Decoder decodes objects of type T, a pointer to a struct. See wire.Decoder for what its methods promise.
type Decoder[T any] struct {
	mu sync.Mutex // held while decoding; Stats takes it from other goroutines
	d  *decoder
}

var _ wire.Decoder[*struct{}] = (*Decoder[*struct{}])(nil)

// decoder is the part of a Decoder that does not depend on its type.
type decoder struct {
	typ      reflect.Type
	compiler *compiler
	root     *message // nil for a type that is decoded by its own Unmarshal
	table    *table   // nil when nothing is shared
	arena    arena
	stats    wire.Stats
	small    smallValues
	// plain is set while an irregular object is decoded.
	plain bool
	// storing is above 0 while a value is decoded that goes into the table: then nothing may be put off.
	storing int
	// cost is the memory allocated for values since the innermost value that goes into the table was begun.
	cost  int
	depth int
	// identified says that field 1 of T is the ObjectMeta.
	identified bool
	// latest is nil when nothing is shared or objects of the type have no uid; spec also when they have none.
	latest *latest
	spec   *field
	// sameSpec says that the object that is being decoded has the spec of the version before.
	sameSpec bool
	// warmed are the lists that warm reads, warmth what it reads.
	warmed []warmList
	warmth byte
}

// Supports reports whether T, a pointer to a struct, has a protobuf encoding that New can decode.
func Supports[T any]() bool { return supported(reflect.TypeFor[T]()) == nil }

func supported(typ reflect.Type) error {
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("%s is not a pointer to a struct: %w", typ, ErrNotSupported)
	}
	if !isMessage(typ.Elem()) {
		return fmt.Errorf("%s has no Unmarshal method: %w", typ, ErrNotSupported)
	}
	return nil
}

// New returns a decoder for T, a pointer to a struct type such as *corev1.Pod. A type that has an Unmarshal method but
// not the tags that a plan needs is decoded by that method. The error says what is wrong with opts.Trim, or
// wraps ErrNotSupported. opts.Seed has no effect: which values are looked up depends on the objects alone.
func New[T any](opts wire.Options) (*Decoder[T], error) {
	d, err := newDecoder(reflect.TypeFor[T](), opts)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{d: d}, nil
}

func newDecoder(pointer reflect.Type, opts wire.Options) (*decoder, error) {
	if err := supported(pointer); err != nil {
		return nil, err
	}
	d := &decoder{typ: pointer.Elem(), compiler: newCompiler()}
	trims, err := parseTrims(d.typ, opts.Trim)
	if err != nil {
		return nil, err
	}
	if checkMessage(d.typ) == nil {
		d.root = d.compiler.message(d.typ, nil, "", trims)
		meta := d.root.field(1)
		d.identified = meta != nil && meta.typ == objectMetaType
	}
	if !opts.NoSharing {
		d.table = newTable(opts.MaxTableBytes)
		if d.identified {
			d.latest, d.spec = newLatest(), specOf(d.root)
			d.warmed = d.warmLists(d.root)
		}
	}
	return d, nil
}

// Decode implements wire.Decoder.
func (dec *Decoder[T]) Decode(data []byte) (T, error) {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	p, err := dec.d.decode(data)
	if err != nil {
		var zero T
		return zero, fmt.Errorf("decoding %s: %w", reflect.TypeFor[T]().Elem(), err)
	}
	// Safe because p is a value of the type that T points to.
	return *(*T)(unsafe.Pointer(&p)), nil
}

// decode returns a pointer to a new value of the root type.
func (d *decoder) decode(data []byte) (unsafe.Pointer, error) {
	last, spec := d.versionBefore(data)
	p, err := d.attempt(data, last.object, false)
	d.sameSpec = false
	if err == errIrregular {
		p, err = d.attempt(data, nil, true)
	}
	if err != nil {
		d.arena.reset()
		return nil, err
	}
	own := d.arena.settle()
	if d.latest != nil && !d.plain {
		d.remember(p, spec, last.held+own)
	}
	d.stats.Objects++
	d.stats.Bytes += uint64(len(data))
	if d.table != nil && last.object == nil {
		d.table.decoded() // other objects look up too little to say what is still in use
	}
	return p, nil
}

// attempt decodes data. old is the version before, nil if there is none to take over from.
func (d *decoder) attempt(data []byte, old unsafe.Pointer, plain bool) (unsafe.Pointer, error) {
	d.begin(plain)
	p := reflect.New(d.typ).UnsafePointer()
	if d.root == nil {
		return p, d.foreign(d.typ, p, data)
	}
	return p, d.message(d.root, p, old, data)
}

func (d *decoder) begin(plain bool) {
	d.arena.reset()
	d.plain, d.storing, d.depth, d.cost = plain, 0, 0, 0
}

// putsOff reports whether parts of the value that is being decoded may wait in the arena.
func (d *decoder) putsOff() bool { return d.storing == 0 && !d.plain }

// shares reports whether values are looked up.
func (d *decoder) shares() bool { return d.table != nil && !d.plain }

// Stats implements wire.Decoder. It waits for a Decode that is running. In Fields, "spec.containers" counts whole lists
// and "spec.containers[]" single elements; a part is looked up only where the one that holds it was not found.
func (dec *Decoder[T]) Stats() wire.Stats {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	return dec.d.snapshot()
}

func (d *decoder) snapshot() wire.Stats {
	stats := d.stats
	if d.table == nil {
		return stats
	}
	stats.TableBytes, stats.TableEntries = d.table.bytes(), uint64(d.table.entries.n)
	if d.latest != nil {
		stats.TableBytes += uint64(len(d.latest.objects)+len(d.latest.before)) * versionBytes
	}
	stats.Fields = map[string]wire.FieldStats{}
	for _, s := range d.compiler.sites {
		stats.TableBytes += s.bytes()
		if s.stats.Lookups == 0 {
			continue
		}
		stats.Lookups += s.stats.Lookups
		stats.Hits += s.stats.Hits
		stats.SharedBytes += s.stats.SharedBytes
		f := stats.Fields[s.path]
		f.Lookups += s.stats.Lookups
		f.Hits += s.stats.Hits
		f.Bytes += s.stats.Bytes
		f.SharedBytes += s.stats.SharedBytes
		stats.Fields[s.path] = f
	}
	return stats
}
