package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// caughtUpAfter is how long a watch that was resumed has to be quiet to count as caught up, unless it has come to the version
// that the server was at before. A server sends what it remembers at once, and so it says that it does not remember that far.
const caughtUpAfter = 200 * time.Millisecond

// listedAnyway is how many objects a collection may have that is listed all the same. That costs no more than the check before a
// watch is resumed, and leaves nothing in doubt.
const listedAnyway = 100

// loaded is what was read from a file: open objects, or where the store can fold them, folded ones, which nobody has to decode.
type loaded[T object.Object] struct {
	items   object.Items[T]
	folded  *store.Gathering[T] // nil if the store cannot fold
	version string
	asOf    time.Time
	newest  object.Key // of the object that was changed last
	codec   *source.Codec[T]
}

func (l *loaded[T]) objects() object.Collection[T] {
	if l.folded != nil {
		return l.folded
	}
	return l.items
}

// close is called when the objects are in the store, or are not to be.
func (l *loaded[T]) close() {
	if l.folded != nil {
		l.folded.Close()
	}
}

// momentaryError wraps an error that says nothing about the file.
type momentaryError struct{ error }

func (e momentaryError) Unwrap() error { return e.error }

// resume fills the store from the part's file, if it can be used, and returns what the store holds then. It runs on the
// reflector's goroutine before the first request.
func (p *part[T]) resume(ctx context.Context) (held reflector.Contents, err error) {
	pf := p.file
	if pf == nil || pf.path == "" {
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
	p.inf.waitForRoom(p.ctx)
	n := l.objects().Len()
	if !p.inf.applyFile(p, l) {
		return held, nil
	}
	pf.mu.Lock()
	pf.status.Loaded, pf.status.AsOf, pf.version = n, l.asOf, l.version
	pf.mu.Unlock()
	if p.inf.budget != nil {
		p.inf.budget.note(nil)
	}
	p.inf.notify()
	return reflector.Contents{ResourceVersion: l.version, Newest: l.newest, List: n <= listedAnyway}, nil
}

// discard throws the part's file away, which cannot be used.
func (p *part[T]) discard(err error) {
	p.file.note(func(st *FileStatus) { st.Discarded = err })
	p.inf.log.log(slog.LevelWarn, "the saved objects cannot be used; they are listed instead", "err", err)
	_ = os.Remove(p.file.path) // or else the next save replaces it
}

// load reads a file. The error is a momentaryError if it is not about the file.
func (f *files[T]) load(ctx context.Context, pf *partFile) (l loaded[T], err error) {
	if f.inf.store.CanFold() {
		l.folded = f.inf.store.Gather(0)
	} else if l.codec, err = source.NewCodecAs[T](f.typ, 0); err != nil { // one of its own, since it remembers what objects have in common
		return l, err
	}
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("read %s: %w: panic: %v", pf.path, file.ErrBroken, reason)
		}
	}()
	err = file.ReadFile(pf.path, file.Options{Key: f.Key}, func(r *file.Reader) error {
		if err := f.checkHeader(ctx, r.Header(), pf.identity); err != nil {
			return err
		}
		l.version, l.asOf = r.Header().ResourceVersions[pf.identity["namespace"]], r.Header().Written
		newest := ""
		for record, err := range r.Records() {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if err := f.add(&l, record, pf.identity["namespace"]); err != nil {
				return err
			}
			if newest == "" || object.OlderResourceVersion(newest, record.ResourceVersion) {
				newest, l.newest = record.ResourceVersion, object.Key{Namespace: record.Namespace, Name: record.Name}
			}
		}
		return nil
	})
	return l, err
}

// checkHeader says why a file is not of this part. The cluster is asked for last, since that may take a request.
func (f *files[T]) checkHeader(ctx context.Context, header file.Header, identity map[string]string) error {
	want := maps.Clone(identity)
	want["cluster"] = header.Identity["cluster"]
	if err := header.Check(want); err != nil {
		return err
	}
	if version := header.ResourceVersions[identity["namespace"]]; version == "" || version == "0" {
		return fmt.Errorf("%w: it has no resource version", file.ErrBroken)
	}
	cluster, err := f.Cluster(ctx)
	if err != nil {
		return momentaryError{err}
	}
	want["cluster"] = cluster
	return header.Check(want)
}

// add adds the object of a record, if it belongs to the file.
func (f *files[T]) add(l *loaded[T], record file.Record, namespace string) error {
	key := object.Key{Namespace: record.Namespace, Name: record.Name}
	switch {
	case key.Name == "":
		return fmt.Errorf("%w: an object has no name", file.ErrBroken)
	case namespace != "" && key.Namespace != namespace:
		return fmt.Errorf("%w: %s is not in namespace %q", file.ErrBroken, key, namespace)
	case object.OlderResourceVersion(l.version, record.ResourceVersion):
		return fmt.Errorf("%w: %s is newer than the file", file.ErrBroken, key)
	}
	if l.folded != nil {
		l.folded.AddPacked(key, types.UID(record.UID), record.ResourceVersion, record.Object, nil)
		return nil
	}
	obj, err := l.decode(record)
	if err == nil && (object.KeyOf(obj) != key || string(obj.GetUID()) != record.UID || obj.GetResourceVersion() != record.ResourceVersion) {
		err = errors.New("it is another object")
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", file.ErrBroken, key, err)
	}
	l.items = append(l.items, obj)
	return nil
}

func (l *loaded[T]) decode(record file.Record) (obj T, err error) {
	err = record.Object.View(func(data []byte) error {
		obj, err = l.codec.Decode(data, *new(T))
		return err
	})
	return obj, err
}

// applyFile makes what was read from a file the content of the part, and tells the handlers of it as an initial list. It does
// nothing, and returns false, if something is known that may be newer.
func (inf *Informer[T]) applyFile(p *part[T], l loaded[T]) bool {
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed || p.inherited != "" || inf.store.Snapshot().In(p.namespace).Len() > 0 {
		return false
	}
	if object.OlderResourceVersion(l.version, inf.left) {
		return false // the part may have been given up before, and handlers have been told what came after the file
	}
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.Silence()
	txn.Replace(p.namespace, l.objects(), l.version, false)
	snap := txn.Commit()
	p.absent.relisted(l.version)
	p.inherited = l.version
	initial := snap.In(p.namespace)
	for _, s := range inf.subscriptions() {
		s.queue.Sync(initial, true)
	}
	return true
}

// onResume is called by the reflector when it has opened a watch that goes on from the file. recent is the version that the
// server was at, if that is known.
func (p *part[T]) onResume(watch context.Context, recent string) {
	if p.listed.Load() {
		return
	}
	p.recent = recent
	p.newsAt.Store(int64(time.Since(p.made)))
	p.inf.wg.Go(func() { p.awaitQuiet(watch) })
}

// awaitQuiet waits until the watch has been quiet for long enough, or has ended.
func (p *part[T]) awaitQuiet(watch context.Context) {
	timer := time.NewTimer(caughtUpAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-watch.Done():
			return
		}
		quiet := time.Since(p.made) - time.Duration(p.newsAt.Load())
		if quiet >= caughtUpAfter {
			p.caughtUp()
			return
		}
		timer.Reset(caughtUpAfter - quiet)
	}
}

// resumedTo notes that the watch has brought the part to a version.
func (p *part[T]) resumedTo(version string) {
	if p.listed.Load() {
		return
	}
	p.newsAt.Store(int64(time.Since(p.made)))
	if p.recent != "" && !object.OlderResourceVersion(version, p.recent) {
		p.caughtUp()
	}
}

// caughtUp says that the part has everything that the server had when the watch was resumed, as after a list.
func (p *part[T]) caughtUp() {
	inf := p.inf
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed || p.listed.Load() {
		return
	}
	p.listed.Store(true)
	inf.mu.Lock()
	inf.checkSynced()
	inf.mu.Unlock()
	inf.later = append(inf.later, inf.notify)
}

// contradicts reports whether a list shows that the objects of the part's file are of another history: the list has an object
// in an older state than the file, although it is not older than that state.
func (p *part[T]) contradicts(objects object.Collection[T], version string) bool {
	if p.file == nil || p.listed.Load() {
		return false
	}
	snap := p.inf.store.Snapshot()
	for listed := range store.HeldOf(objects) {
		held, ok := snap.Held(listed.Key())
		if ok && object.OlderResourceVersion(listed.ResourceVersion(), held.ResourceVersion()) && !object.OlderResourceVersion(version, held.ResourceVersion()) {
			return true
		}
	}
	return false
}
