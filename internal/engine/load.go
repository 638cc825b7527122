package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// alwaysListUpTo is the size up to which a collection is listed despite the file. That costs no
// more than the check before a watch resumes, and leaves no doubt.
const alwaysListUpTo = 100

// A file may have been written by anybody, and a hundred packed bytes may open to megabytes. If all
// objects are opened, they may have openedFree bytes together, and openedPerByte for each byte of
// their records: more than a patch of the largest template saves. With a budget, few are open at a
// time.
const openedFree, openedPerByte = 64 << 20, 1024

// loaded is the content of a file: folded objects, without decoding them, if the store can fold, else open ones.
type loaded[T object.Object] struct {
	items    object.Items[T]
	folded   *store.Gathering[T] // nil if the store cannot fold
	version  string
	asOf     time.Time
	newest   object.Key // the object that was changed last
	notified bool       // the handlers were notified of the objects
}

func (l *loaded[T]) objects() object.Collection[T] {
	if l.folded != nil {
		return l.folded
	}
	return l.items
}

// close is called once the objects are in the store, or will not be.
func (l *loaded[T]) close() {
	if l.folded != nil {
		l.folded.Close()
	}
}

// momentaryError wraps a temporary error that is not about the file.
type momentaryError struct{ error }

func (e momentaryError) Unwrap() error { return e.error }

// Resume implements intake.Holder: the part begins from its file, or else with a list that is no older than
// what handlers know of its objects.
func (p *part[T]) Resume(ctx context.Context) (held intake.Contents, err error) {
	held, err = p.resumeFromFile(ctx)
	if err == nil && held.ResourceVersion == "" {
		held = intake.Contents{ResourceVersion: p.beginning.notBefore, List: true}
	}
	return held, err
}

// resumeFromFile fills the store from the part's file, if that is usable, and returns what the store then holds.
func (p *part[T]) resumeFromFile(ctx context.Context) (held intake.Contents, err error) {
	pf := p.file
	if pf.path == "" {
		return held, nil
	}
	l, err := p.inf.files.load(ctx, pf)
	defer l.close()
	if _, momentary := errors.AsType[momentaryError](err); momentary {
		return held, err
	}
	switch {
	case ctx.Err() != nil:
		return held, ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return held, nil
	case err != nil:
		p.discard(err)
		return held, nil
	}
	n := l.objects().Len()
	pf.note(func(st *FileStatus) { st.Loaded, st.AsOf = n, l.asOf }) // readers may see the first objects before the last one is opened
	if applied, err := p.inf.takeOver(ctx, p, &l); err != nil {
		// The file does not prove what the server has. But the server once had its objects, and
		// handlers may have been notified of them: an older list would take them back, or pass for
		// another history. If the server does not get that far, the reflector reports that it was
		// restored.
		held = intake.Contents{ResourceVersion: object.MaxResourceVersion(p.keepPartial(), p.beginning.notBefore),
			List: true}
		pf.note(func(st *FileStatus) { st.Loaded = 0 })
		if p.inf.store.Snapshot().In(p.namespace).Len() == 0 { // otherwise readers see the objects that were opened
			pf.note(func(st *FileStatus) { st.AsOf = time.Time{} })
		}
		p.discard(err)
		return held, nil
	} else if !applied {
		pf.note(func(st *FileStatus) { st.Loaded, st.AsOf = 0, time.Time{} })
		return held, nil
	}
	pf.mu.Lock()
	pf.version = l.version
	pf.mu.Unlock()
	p.inf.keepBudget()
	p.inf.notify()
	return intake.Contents{ResourceVersion: l.version, Newest: l.newest, List: n <= alwaysListUpTo}, nil
}

// discard removes the part's file, which cannot be used. If the system failed to read it, that may
// be temporary: such a file is kept for the next start, or the next save.
func (p *part[T]) discard(err error) {
	p.file.note(func(st *FileStatus) { st.Discarded = err })
	p.inf.log.Log(slog.LevelWarn, "the saved objects cannot be used; they are listed instead", "err", err)
	if _, unread := errors.AsType[*fs.PathError](err); !unread {
		_ = os.Remove(p.file.path) // otherwise the next save replaces it
	}
}

// load reads a file. The error is a momentaryError if it is not about the file.
func (f *files[T]) load(ctx context.Context, pf *partFile) (l loaded[T], err error) {
	if f.inf.store.CanFold() {
		l.folded = f.inf.store.Gather(0)
	}
	defer brokenByPanic(&err)
	err = file.ReadFile(pf.path, file.Options{Key: f.Key}, func(r *file.Reader) error {
		if err := f.checkHeader(ctx, r.Header(), pf.identity); err != nil {
			return err
		}
		l.version, l.asOf = r.Header().ResourceVersions[pf.identity["namespace"]], r.Header().Written
		records := checking[T]{l: &l, namespace: pf.identity["namespace"], records: r.Records(), left: openedFree}
		if l.folded == nil {
			return f.decode(ctx, &records, r.Share)
		}
		for record := range records.all(ctx) {
			l.folded.AddPacked(keyOfRecord(record), types.UID(record.UID), record.ResourceVersion, record.Object)
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
func (f *files[T]) checkHeader(ctx context.Context, header file.Header, identity map[string]string) error {
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
		return momentaryError{err}
	}
	want["cluster"] = cluster
	return header.Check(want)
}

// checking iterates over the records of a file.
type checking[T object.Object] struct {
	l         *loaded[T]
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
				newest, c.l.newest = record.ResourceVersion, keyOfRecord(record)
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
	case object.OlderResourceVersion(c.l.version, record.ResourceVersion):
		return fmt.Errorf("%w: %s is newer than the file", file.ErrBroken, key)
	case c.left < 0 && c.l.folded == nil:
		return fmt.Errorf("%w: its objects would take far more memory than its length justifies", file.ErrBroken)
	}
	return nil
}

func keyOfRecord(r file.Record) object.Key { return object.Key{Namespace: r.Namespace, Name: r.Name} }

// decode decodes the objects of the records on several cores while reading. share returns how much
// of the file has been read.
func (f *files[T]) decode(ctx context.Context, c *checking[T], share func() float64) error {
	codecs := make([]*codec.Objects[T], openers()) // one for each, since it remembers what objects have in common
	for i := range codecs {
		var err error
		if codecs[i], err = codec.NewAs[T](f.typ, 0); err != nil {
			return err
		}
	}
	var ahead budget.Forecast[T]
	defer ahead.Close()
	err := inOrder(inBatches(c.all(ctx), openBatch), len(codecs), func(worker int, records []file.Record) ([]T, error) {
		return decodeRecords(codecs[worker], records)
	}, func(objects []T) error {
		c.l.items = append(c.l.items, objects...)
		ahead.Update(objects, len(c.l.items), c.read, share())
		return ctx.Err()
	})
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

// takeOver makes the content of a file the content of the part, and sends it to the handlers as an
// initial list. It does nothing and returns false if something newer may be known. An error says
// what is wrong with an object.
func (inf *Informer[T]) takeOver(ctx context.Context, p *part[T], l *loaded[T]) (bool, error) {
	if !inf.applies(p, l) {
		return false, nil
	}
	err := inf.openFolded(ctx, p, l)
	if ctx.Err() != nil || err == errPartRemoved {
		return false, nil
	}
	return err == nil && inf.applyFile(p, l), err
}

// applies reports whether nothing is known that may be newer than the file.
func (inf *Informer[T]) applies(p *part[T], l *loaded[T]) bool {
	inf.apply.Lock()
	defer inf.unlockApply()
	return !p.removed && p.beginning.knowsNothing() && inf.store.Snapshot().In(p.namespace).Len() == 0 &&
		!object.OlderResourceVersion(l.version, inf.newestRemoved) // otherwise handlers were notified of changes after the file, before a part was removed
}

var errPartRemoved = errors.New("the part was removed")

// applyFile makes the content of a file the content of the part, unless that was removed.
func (inf *Informer[T]) applyFile(p *part[T], l *loaded[T]) bool {
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed {
		return false
	}
	txn := inf.writer.Begin()
	defer txn.Abort()
	if !l.notified {
		txn.Silence()
	}
	notes := txn.Replace(p.namespace, l.objects(), l.version, false)
	p.markInitial(notes)
	snap := txn.Commit()
	p.deletions.relisted(l.version)
	p.beginning.resumeFrom(l.version)
	if l.notified {
		inf.push(inf.subscriptions(), notes, l.version)
	} else {
		inf.pushInitial(snap.In(p.namespace))
	}
	return true
}
