package saved

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/parallel"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// A file may have been written by anybody, and a hundred packed bytes may open to megabytes. If all
// objects are opened, they may have openedFree bytes together, and openedPerByte for each byte of
// their records: more than a patch of the largest template saves. With a budget, few are open at a
// time.
const openedFree, openedPerByte = 64 << 20, 1024

// decodeBatch is how many objects a goroutine decodes at once.
const decodeBatch = 200

// Loaded is the content of a file: folded objects, without decoding them, if the store can fold, else open ones.
type Loaded[T object.Object] struct {
	Items    object.Items[T]
	Folded   *store.Gathering[T] // nil if the store cannot fold
	Version  string
	AsOf     time.Time
	Newest   object.Key // the object that was changed last
	Notified bool       // the handlers were notified of the objects
}

// Objects returns all of it.
func (l *Loaded[T]) Objects() object.Collection[T] {
	if l.Folded != nil {
		return l.Folded
	}
	return l.Items
}

// Close is called once the objects are in the store, or will not be.
func (l *Loaded[T]) Close() {
	if l.Folded != nil {
		l.Folded.Close()
	}
}

// MomentaryError wraps a temporary error that is not about the file.
type MomentaryError struct{ error }

func (e MomentaryError) Unwrap() error { return e.error }

// Load reads a file. The error is a MomentaryError if it is not about the file.
func (f *Files[T]) Load(ctx context.Context, pf *File) (l Loaded[T], err error) {
	if f.owner.Store().CanFold() {
		l.Folded = f.owner.Store().Gather(0)
	}
	defer brokenByPanic(&err)
	err = file.ReadFile(pf.Path, file.Options{Key: f.Key}, func(r *file.Reader) error {
		if err := f.checkHeader(ctx, r.Header(), pf.Identity); err != nil {
			return err
		}
		l.Version, l.AsOf = r.Header().ResourceVersions[pf.Identity["namespace"]], r.Header().Written
		records := checking[T]{l: &l, namespace: pf.Identity["namespace"], records: r.Records(), left: openedFree}
		if l.Folded == nil {
			return f.decode(ctx, &records, r.Share)
		}
		for record := range records.all(ctx) {
			l.Folded.AddPacked(keyOfRecord(record), types.UID(record.UID), record.ResourceVersion, record.Object)
		}
		return records.err
	})
	return l, err
}

// brokenByPanic, when deferred, turns a panic into an error.
func brokenByPanic(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%w: panic: %v", file.ErrBroken, reason)
	}
}

// checkHeader returns an error if a file does not belong to this part. It checks the cluster last,
// since that may take a request.
func (f *Files[T]) checkHeader(ctx context.Context, header file.Header, identity map[string]string) error {
	want := maps.Clone(identity)
	want["cluster"] = header.Identity["cluster"]
	if err := header.Check(want); err != nil {
		return err
	}
	if version := header.ResourceVersions[identity["namespace"]]; version == "" || version == "0" {
		return fmt.Errorf("%w: it has no resource version", file.ErrBroken)
	}
	cluster, err := f.cluster(ctx)
	if err != nil {
		return MomentaryError{err}
	}
	want["cluster"] = cluster
	return header.Check(want)
}

// checking iterates over the records of a file.
type checking[T object.Object] struct {
	l         *Loaded[T]
	namespace string
	records   iter.Seq2[file.Record, error]
	read      int   // how many
	left      int   // how many bytes the next objects may open to
	err       error // why it ended early
}

// all iterates over the records until one does not belong to the file, and tracks the newest object.
func (c *checking[T]) all(ctx context.Context) iter.Seq[file.Record] {
	return func(yield func(file.Record) bool) {
		newest := ""
		for record, err := range c.records {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = c.check(record)
			}
			if err != nil {
				c.err = err
				return
			}
			c.read++
			if newest == "" || object.OlderResourceVersion(newest, record.ResourceVersion) {
				newest, c.l.Newest = record.ResourceVersion, keyOfRecord(record)
			}
			if !yield(record) {
				return
			}
		}
	}
}

func (c *checking[T]) check(record file.Record) error {
	c.left += openedPerByte*record.Size() - record.Object.Len()
	switch key := keyOfRecord(record); {
	case key.Name == "":
		return fmt.Errorf("%w: an object has no name", file.ErrBroken)
	case c.namespace != "" && key.Namespace != c.namespace:
		return fmt.Errorf("%w: %s is not in namespace %q", file.ErrBroken, key, c.namespace)
	case object.OlderResourceVersion(c.l.Version, record.ResourceVersion):
		return fmt.Errorf("%w: %s is newer than the file", file.ErrBroken, key)
	case c.left < 0 && c.l.Folded == nil:
		return fmt.Errorf("%w: its objects would take far more memory than its length justifies", file.ErrBroken)
	}
	return nil
}

func keyOfRecord(r file.Record) object.Key { return object.Key{Namespace: r.Namespace, Name: r.Name} }

// decode decodes the objects of the records on several cores while reading. share returns how much
// of the file has been read.
func (f *Files[T]) decode(ctx context.Context, c *checking[T], share func() float64) error {
	codecs := make([]*codec.Objects[T], parallel.Workers()) // one for each, since it remembers what objects have in common
	for i := range codecs {
		var err error
		if codecs[i], err = codec.NewAs[T](f.Type, 0); err != nil {
			return err
		}
	}
	var ahead budget.Forecast[T]
	defer ahead.Close()
	err := parallel.InOrder(inBatches(c.all(ctx), decodeBatch), len(codecs), func(worker int, records []file.Record) ([]T, error) {
		return decodeRecords(codecs[worker], records)
	}, func(objects []T) error {
		c.l.Items = append(c.l.Items, objects...)
		ahead.Update(objects, len(c.l.Items), c.read, share())
		return ctx.Err()
	})
	if errors.Is(err, parallel.ErrPanic) {
		err = fmt.Errorf("%w: %w", file.ErrBroken, err)
	}
	return cmp.Or(err, c.err)
}

// inBatches groups the elements of all, n at a time.
func inBatches[E any](all iter.Seq[E], n int) iter.Seq[[]E] {
	return func(yield func([]E) bool) {
		batch := make([]E, 0, n)
		for e := range all {
			if batch = append(batch, e); len(batch) < n {
				continue
			}
			if !yield(batch) {
				return
			}
			batch = make([]E, 0, n)
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

func decodeRecords[T object.Object](codec *codec.Objects[T], records []file.Record) (objects []T, err error) {
	objects = make([]T, len(records))
	for i := range records {
		if objects[i], err = decodeRecord(codec, records[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// decodeRecord returns the object of a record.
func decodeRecord[T object.Object](codec *codec.Objects[T], record file.Record) (obj T, err error) {
	obj, patched := decodePatch(codec, record.Object)
	if !patched {
		err = record.Object.View(func(data []byte) error {
			obj, err = codec.Decode(data, *new(T))
			return err
		})
	}
	key := keyOfRecord(record)
	if err == nil && (object.KeyOf(obj) != key || string(obj.GetUID()) != record.UID || obj.GetResourceVersion() != record.ResourceVersion) {
		err = errors.New("it is another object")
	}
	if err != nil {
		return obj, fmt.Errorf("%w: %s: %w", file.ErrBroken, key, err)
	}
	return obj, nil
}

// decodePatch decodes an object stored as a patch. It returns false for other objects, or if that
// fails. Patches of one template are adjacent: it is decoded once for several of them.
func decodePatch[T object.Object](codec *codec.Objects[T], packed fold.Packed) (obj T, ok bool) {
	template, patch, ok, err := packed.Patch()
	if !ok || err != nil {
		return obj, false
	}
	decoded, _ := template.UseDecoded()
	base, ok := decoded.(T)
	if !ok {
		if base, err = codec.DecodeBase(template.Encoded()); err != nil {
			return obj, false
		}
		template.KeepDecoded(base) // until the file's records are dropped
	}
	obj, err = codec.DecodePatch(base, patch)
	return obj, err == nil && !object.IsNil(obj)
}
