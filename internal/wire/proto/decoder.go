package proto

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/patch"
)

// ErrNotSupported is wrapped by the error of New for a type that has no protobuf encoding. Such a
// type has to be read as JSON.
var ErrNotSupported = errors.New("the type has no protobuf encoding; ask the server for JSON")

// errIrregular says that the bytes take liberties of protobuf that no API server takes, so that the object has to be
// decoded again in plain mode.
var errIrregular = errors.New("protobuf: irregular message")

// maxDepth bounds the nesting of messages. API types nest about 15 deep.
const maxDepth = 10_000

// Decoder decodes objects of type T, a pointer to a struct. See wire.Decoder for the contract of its methods.
type Decoder[T any] struct {
	typ  reflect.Type // of the objects
	opts wire.Options
	// identified says that field 1 of T is the ObjectMeta.
	identified bool

	mu sync.Mutex // held while decoding; Stats takes it from other goroutines
	d  *decoder   // nil as long as there is no plan
	// early counts the objects that were decoded without one, weight is what they count for.
	early  wire.Stats
	weight int
}

var _ wire.Patcher[*struct{}] = (*Decoder[*struct{}])(nil)

// decoder is the part of a Decoder that does not depend on the type parameter.
type decoder struct {
	typ      reflect.Type
	typed    any // a nil pointer to the object type
	opts     wire.Options
	compiler *compiler
	root     *message // nil if the type is decoded by its own Unmarshal
	table    *table   // nil if nothing is shared
	arena    *arena   // set while an object is decoded
	stats    wire.Stats
	small    smallValues
	mode
	digits patch.Scratch
	// difference is the room for the patch of an update.
	difference []byte
	// cost is the memory allocated for values since the innermost value for the table was begun.
	cost int
	// allowance is the memory that values of the object may still take.
	allowance int
	depth     int // of the message being decoded; errors leave it as it is, since each object begins at 0
	unchecked int // objects decoded since the last recheck
	// versions is nil if objects have no uid or nothing is shared.
	versions *versions
	// spec is nil if T has no spec that can be reused as a whole.
	spec       *field
	specLayout *layout
	sameSpec   bool // the object being decoded has the spec of the previous version
	quantities quantities
	random     *rand.PCG
	// prefetchLists are the lists that prefetch reads, prefetchSum the sum of what it read.
	prefetchLists []prefetchList
	prefetchSum   byte
}

// Supports reports whether typ, a pointer to a struct, has a protobuf encoding that this package can decode.
func Supports(typ reflect.Type) bool { return supported(typ) == nil }

func supported(typ reflect.Type) error {
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("%s is not a pointer to a struct: %w", typ, ErrNotSupported)
	}
	if !isMessage(typ.Elem()) {
		return fmt.Errorf("%s has no Unmarshal method: %w", typ, ErrNotSupported)
	}
	return nil
}

// New returns a decoder for T, a pointer to a struct type such as *corev1.Pod. A type with an
// Unmarshal method but without the tags that a plan needs is decoded by that method. The error says
// what is wrong with opts.Trim, or wraps ErrNotSupported. opts.Seed decides which versions reuse
// nothing; which values are looked up depends on the objects alone.
func New[T any](opts wire.Options) (*Decoder[T], error) {
	return newOf[T](reflect.TypeFor[T](), opts)
}

// newOf returns a decoder for typ, which T stands for.
func newOf[T any](typ reflect.Type, opts wire.Options) (*Decoder[T], error) {
	if early, ok := newEarly[T](typ, opts); ok {
		return early, nil
	}
	d, err := newDecoder(typ, opts)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{typ: typ, opts: opts, identified: d.identified(), d: d}, nil
}

func newDecoder(pointer reflect.Type, opts wire.Options) (*decoder, error) {
	if err := supported(pointer); err != nil {
		return nil, err
	}
	d := &decoder{
		typ: pointer.Elem(), typed: nilPointer(pointer.Elem()), opts: opts, compiler: &compiler{policy: &sharing},
		random: rand.NewPCG(cmp.Or(opts.Seed, rand.Uint64()), 0),
	}
	if opts.KeepBytes {
		d.compiler.policy = &sharingOften
	}
	trims, err := parseTrims(d.typ, opts.Trim)
	if err != nil {
		return nil, err
	}
	if checkMessage(d.typ) == nil {
		d.root = d.compiler.message(d.typ, nil, trims)
	}
	if !opts.NoSharing {
		d.table = newTable(opts.MaxTableBytes)
	}
	if !opts.NoSharing && !opts.NoVersions {
		d.rememberVersions(opts.MaxTableBytes)
	}
	return d, nil
}

// identified reports whether field 1 of T is the ObjectMeta.
func (d *decoder) identified() bool {
	if d.root == nil {
		return false
	}
	meta := d.compiler.field(d.root, 1)
	return meta.op != skipOp && meta.typ == objectMetaType
}

// rememberVersions sets up reuse of earlier versions.
func (d *decoder) rememberVersions(maxBytes int) {
	if !d.identified() {
		return
	}
	d.versions = newVersions(maxBytes)
	if d.spec = d.specOf(d.root); d.spec != nil {
		d.specLayout = goTypes.layout(d.spec.typ)
	}
	d.prefetchLists = prefetchListsOf(d.typ)
}

// Recheck implements wire.Decoder.
func (dec *Decoder[T]) Recheck() {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	if dec.d != nil {
		dec.d.recheck()
	}
}

func (d *decoder) recheck() {
	if d.table != nil {
		d.table.BeginBatch()
	}
	d.unchecked = 0
}

// Decode implements wire.Decoder.
func (dec *Decoder[T]) Decode(data []byte, previous T) (T, error) {
	return dec.Update(data, previous, nil)
}

// Update implements wire.Patcher.
func (dec *Decoder[T]) Update(data []byte, previous T, encoded []byte) (T, error) {
	// Safe because T is a pointer type, here and below.
	p, corrupted, err := dec.decode(data, *(*unsafe.Pointer)(unsafe.Pointer(&previous)), encoded)
	if dec.opts.OnStrayWrite != nil {
		for _, field := range corrupted {
			dec.opts.OnStrayWrite(field)
		}
	}
	if err != nil {
		var zero T
		return zero, fmt.Errorf("decoding %s: %w", dec.typ.Elem(), redact.Decoding(err))
	}
	return *(*T)(unsafe.Pointer(&p)), nil
}

func (dec *Decoder[T]) decode(data []byte, old unsafe.Pointer, was []byte) (p unsafe.Pointer, corrupted []string, err error) {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	if len(was) == 0 { // or there are so many that they are folded
		if p, ok := dec.decodeEarly(data, old != nil); ok {
			return p, nil, nil
		}
	}
	p, err = dec.guarded(func() (unsafe.Pointer, error) { return dec.planned().decode(data, old, was) })
	return p, dec.d.takeCorrupted(), err
}

// guarded turns a panic into an error. It then replaces the decoder, whose state may be inconsistent.
func (dec *Decoder[T]) guarded(decode func() (unsafe.Pointer, error)) (p unsafe.Pointer, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &wire.PanicError{Value: r, Stack: debug.Stack()}
			d, _ := newDecoder(dec.typ, dec.opts) // New has checked the arguments
			d.stats, dec.d = dec.d.stats, d
		}
	}()
	return decode()
}

// decode returns a pointer to a new value of the root type. old is an earlier version, or nil, and
// was its encoding, if known.
func (d *decoder) decode(data []byte, old unsafe.Pointer, was []byte) (unsafe.Pointer, error) {
	if old != nil && len(was) > 0 {
		if p, err := d.update(data, old, was); err == nil {
			d.stats.Bytes += uint64(len(data))
			return p, nil
		}
	}
	if d.unchecked++; d.unchecked > wire.RecheckEvery {
		d.recheck()
	}
	d.arena = arenas.Get().(*arena)
	defer d.release()
	old, next := d.compare(data, old)
	p, err := d.attempt(data, old, false)
	if err == errIrregular && !d.inPlace { // the strings of a base point into data, where irregular ones might overlap
		p, err = d.attempt(data, nil, true)
	}
	if err != nil {
		return nil, err
	}
	if own := d.arena.settle(); !d.plain {
		d.remember(next, p, own)
	}
	d.stats.Objects++
	d.stats.Bytes += uint64(len(data))
	if d.table != nil && old == nil {
		d.table.Decoded() // objects with a previous version look up too little to show what is still in use
	}
	return p, nil
}

// release returns the arena to the pool.
func (d *decoder) release() {
	d.arena.reset()
	arenas.Put(d.arena)
	d.arena = nil
}

// attempt decodes data. old is the version to reuse parts of, or nil.
func (d *decoder) attempt(data []byte, old unsafe.Pointer, plain bool) (p unsafe.Pointer, err error) {
	d.arena.reset()
	d.begin(plain, d.opts.KeepBytes && !plain && (len(data) <= maxKept || d.inPlace))
	d.depth, d.cost, d.allowance = 0, 0, wire.Allowance(len(data))
	if d.keepsBytes && !d.inPlace {
		data = bytes.Clone(data)
	}
	d.sameSpec = d.sameSpec && !plain
	p = reflect.New(d.typ).UnsafePointer()
	if d.root == nil {
		return p, d.foreign(d.typ, p, data)
	}
	if err = d.message(d.root, p, old, data); err == nil && d.allowance < 0 {
		err = errAllowance
	}
	if err == errAllowance {
		err = &wire.ExpansionError{Size: len(data)}
	}
	return p, err
}

// errAllowance says that the values of an object take too much memory.
var errAllowance = errors.New("too much memory")

// spend records memory allocated for values.
func (d *decoder) spend(bytes int) {
	d.cost += bytes
	d.allowance -= bytes
}

// takeCorrupted returns the names of the shared parts found to have been written to since the last call.
func (d *decoder) takeCorrupted() []string {
	if d.table == nil || len(d.table.corrupted) == 0 {
		return nil
	}
	fields := d.table.corrupted
	d.table.corrupted = nil
	d.stats.Corrupted += uint64(len(fields))
	return fields
}

// Stats implements wire.Decoder. It waits for a running Decode. In Fields, "spec.containers" counts whole lists and
// "spec.containers[]" single elements; a part is looked up only if the part around it was not found.
func (dec *Decoder[T]) Stats() wire.Stats {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	if dec.d == nil {
		return dec.early
	}
	return dec.d.snapshot()
}

func (d *decoder) snapshot() wire.Stats {
	stats := d.stats
	stats.PlanBytes = uint64(len(d.compiler.sites)) * siteBytes
	if d.table == nil {
		return stats
	}
	stats.TableBytes, stats.TableEntries = d.table.Bytes(), uint64(d.table.Len())
	if d.versions != nil {
		stats.TableBytes += uint64(d.versions.len()) * versionBytes
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
		path := s.path()
		f := stats.Fields[path]
		f.Lookups += s.stats.Lookups
		f.Hits += s.stats.Hits
		f.Bytes += s.stats.Bytes
		f.SharedBytes += s.stats.SharedBytes
		stats.Fields[path] = f
	}
	return stats
}
