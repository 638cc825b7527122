// Package json decodes Kubernetes objects from JSON: unstructured ones, sharing equal parts, and typed ones.
// It also reads the JSON streams of lists and watches.
//
//   - Unstructured decodes into *unstructured.Unstructured. Equal names, strings, numbers, maps and
//     lists of all objects of one decoder are stored once.
//   - Typed decodes into Go structs.
//   - EventReader and ListReader split watches and lists into the texts of single objects.
//
// The grammar is validated by jsontext. A valid document means what sigs.k8s.io/json says it means.
package json

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire"
)

// Unstructured is a wire.Decoder for objects without a Go type. Create one with NewUnstructured.
//
// The maps and slices of its objects are shared with earlier and later objects, and equal maps
// within one object may be the same map. Go cannot protect a map: whoever wants to write to an
// object must DeepCopy it first, or decode with NoSharing.
//
// The strings that only one object has share one block of memory, except with NoSharing. Code that
// keeps one of them longer than its object should clone it.
type Unstructured struct {
	opts wire.Options
	trim *trimNode

	mu               sync.Mutex // guards what follows; only Stats ever waits for it
	build            builder
	apiVersion, kind string
	objects, bytes   uint64
	corrupted        uint64
	unchecked        int // objects decoded since the last recheck
}

var _ wire.Decoder[*unstructured.Unstructured] = (*Unstructured)(nil)

// NewUnstructured returns a decoder. It returns an error if a path in opts.Trim is invalid. With
// Options.NoSharing an object owns its maps, slices and strings; only names of fields are shared.
// Options.Seed is not used: nothing here is random except the secret of the hash.
func NewUnstructured(opts wire.Options) (*Unstructured, error) {
	trim, err := newTrim(opts.Trim)
	if err != nil {
		return nil, err
	}
	return &Unstructured{opts: opts, trim: trim, build: newBuilder(trim, opts.MaxTableBytes, !opts.NoSharing)}, nil
}

// SetDefaultKind sets the kind of objects that have neither kind nor apiVersion, such as the items of lists of built-in
// types. Two empty strings, the default, make such objects errors.
func (d *Unstructured) SetDefaultKind(apiVersion, kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.apiVersion, d.kind = apiVersion, kind
}

// Decode decodes one object. The value, and whether the data is valid, are those of unstructured.UnstructuredJSONScheme
// decoding into an *unstructured.Unstructured, less what is trimmed. The previous version is not used.
func (d *Unstructured) Decode(data []byte, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object, corrupted, err := d.decode(data)
	if d.opts.OnStrayWrite != nil {
		for _, field := range corrupted {
			d.opts.OnStrayWrite(field)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("decode JSON object: %w", redact.Decoding(err))
	}
	return object, nil
}

// Recheck implements wire.Decoder.
func (d *Unstructured) Recheck() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recheck()
}

func (d *Unstructured) recheck() {
	d.build.table.BeginBatch()
	d.unchecked = 0
}

// decode turns a panic into an error. It then resets the decoder, whose state may be inconsistent.
func (d *Unstructured) decode(data []byte) (object *unstructured.Unstructured, corrupted []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			object, err = nil, &wire.PanicError{Value: r, Stack: debug.Stack()}
			d.build = newBuilder(d.trim, d.opts.MaxTableBytes, !d.opts.NoSharing)
		}
	}()
	if d.unchecked++; d.unchecked > wire.RecheckEvery {
		d.recheck()
	}
	content, err := d.content(data)
	corrupted, d.build.corrupted = d.build.corrupted, nil
	d.corrupted += uint64(len(corrupted))
	if err != nil {
		return nil, corrupted, err
	}
	object = &unstructured.Unstructured{Object: content}
	if err := d.ensureKind(object); err != nil {
		return nil, corrupted, err
	}
	d.objects++
	d.bytes += uint64(len(data))
	d.build.table.Decoded()
	return object, corrupted, nil
}

func (d *Unstructured) content(data []byte) (map[string]any, error) {
	defer d.build.tape.release()
	if err := d.build.tape.parse(data); err != nil {
		return nil, err
	}
	if kind := d.build.tape.nodes[0].kind; kind != kindBeginObject {
		return nil, fmt.Errorf("got %s instead of an object", kind)
	}
	return d.build.build(data)
}

var errNoKind = errors.New("it has no kind, or its apiVersion is malformed")

func (d *Unstructured) ensureKind(object *unstructured.Unstructured) error {
	if object.GetKind() == "" && object.GetAPIVersion() == "" && d.kind != "" {
		object.Object["kind"], object.Object["apiVersion"] = d.kind, d.apiVersion
	}
	if object.GroupVersionKind().Kind == "" { // also if apiVersion is not a group and version
		return errNoKind
	}
	return nil
}

// Peek implements wire.Decoder.
func (d *Unstructured) Peek(data []byte) (wire.Meta, bool) { return peek(data) }

// Stats implements wire.Decoder. Fields holds those whose values were looked up at least once.
func (d *Unstructured) Stats() wire.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &d.build
	stats := wire.Stats{
		Objects: d.objects, Bytes: d.bytes, Lookups: b.lookups, Hits: b.hits, SharedBytes: b.saved, Corrupted: d.corrupted,
		TableBytes: b.table.Bytes() + uint64(b.fields.bytes), TableEntries: uint64(b.table.Len()),
		Fields: make(map[string]wire.FieldStats),
	}
	b.fields.root.report("", stats.Fields)
	return stats
}

// report adds the stats of the field and all below it. path is the names from the top, joined by dots.
func (f *field) report(path string, to map[string]wire.FieldStats) {
	if f.stats.Lookups > 0 && path != "" {
		to[path] = f.stats
	}
	prefix := path + "."
	if path == "" {
		prefix = ""
	}
	for _, m := range f.children {
		m.report(prefix+m.name, to)
	}
	if f.overflow != nil && f.overflow != f {
		f.overflow.report(prefix+"*", to)
	}
}
