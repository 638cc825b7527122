package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

const (
	defaultSaveEvery = 5 * time.Minute
	// firstSave is when a program saves for the first time after its start; many do not live long.
	firstSave = 30 * time.Second
	// saveIntervalFactor bounds the share of time spent saving: the next save comes at least this
	// many times the duration of the last one later.
	saveIntervalFactor = 100
	// unusedFor is the age from which a file that no informer saves is removed.
	unusedFor = 14 * 24 * time.Hour
	// awaitPartsTimeout is how long the last save waits for the parts to end; maxSaveWait bounds
	// the waits of any save for changes in flight.
	awaitPartsTimeout = 5 * time.Second
	maxSaveWait       = 256 * time.Millisecond
)

var (
	errIncomplete    = errors.New("not saved now: there are objects that cannot be decoded")
	errInFlight      = errors.New("not saved now: changes are on their way into the store")
	errDiffers       = errors.New("not saved now: the server has other objects, and is asked for all of them")
	errEdited        = errors.New("not saved any more: the store was written to by hand, so it may not be what the server has")
	errUntransformed = errors.New("not saved any more: a transform failed, so there are objects as the server has them")
	errWrittenTo     = errors.New("not saved any more: somebody wrote to cached objects, so they may not be what the server has")
)

// start runs the saving on its own goroutine. f may be nil.
func (f *files[T]) start() {
	if f != nil {
		f.inf.wg.Go(f.run)
	}
}

// endings returns the end of that goroutine. f may be nil.
func (f *files[T]) endings() []usercode.Ending {
	if f == nil {
		return nil
	}
	return []usercode.Ending{{Done: f.done, By: &f.caller}}
}

// run saves the parts periodically, and when the informer ends.
func (f *files[T]) run() {
	defer close(f.done)
	f.caller.Enter() // the logger is the user's
	defer f.caller.Leave()
	if f.disabledReason != nil {
		return
	}
	f.removeUnused()
	life := f.inf.life
	timer := time.NewTimer(jitter(min(firstSave, f.Every)))
	defer timer.Stop()
	for {
		select {
		case <-life.Done():
			f.awaitParts()
			f.inf.guard.sampler.CheckAll() // do not save what it finds
			f.saveAll(context.Background())
			return
		case <-timer.C:
			began := time.Now()
			f.saveAll(life)
			timer.Reset(max(jitter(f.Every), saveIntervalFactor*time.Since(began)))
		}
	}
}

// awaitParts waits until the parts have ended, so that what they deliver is saved too. It does not
// wait for a part that is itself waiting, perhaps for the save, nor long for a source that hangs.
func (f *files[T]) awaitParts() {
	enough := time.NewTimer(awaitPartsTimeout)
	defer enough.Stop()
	for _, p := range f.inf.currentParts() {
		select {
		case <-p.done:
		case <-p.caller.WhenWaiting():
		case <-enough.C:
			return
		}
	}
}

// jitter returns d, randomly up to a fifth longer or shorter.
func jitter(d time.Duration) time.Duration {
	d = min(d, math.MaxInt64/2) // a century and a half; a fifth more must not overflow
	return d - d/5 + time.Duration(rand.Float64()*float64(d)*2/5)
}

// saveAll saves the parts one after another. If the cluster cannot be identified, it tries just one
// part: a server that is down may take long to answer.
func (f *files[T]) saveAll(ctx context.Context) {
	for _, p := range f.inf.currentParts() {
		err := f.savePart(ctx, p)
		if _, unknown := err.(momentaryError); unknown || ctx.Err() != nil { // not by AsType, which calls methods of the user's errors
			return
		}
	}
}

// savePart saves the objects of a part, if there is anything new, and records the outcome.
func (f *files[T]) savePart(ctx context.Context, p *part[T]) error {
	err := f.trySave(ctx, p)
	if err != nil && ctx.Err() == nil {
		p.file.note(func(st *FileStatus) { st.Failures, st.Err = st.Failures+1, err })
		f.inf.log.Log(slog.LevelWarn, "the objects are not saved", "err", err)
	}
	return err
}

// trySave saves the objects of a part, if there is anything new. A panic in a method of the user's
// source or type becomes an error.
func (f *files[T]) trySave(ctx context.Context, p *part[T]) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("not saved now: panic: %v", reason)
		}
	}()
	invalidations := p.file.invalidationCount()
	snap, version, err := p.toSave()
	for wait := time.Millisecond; err == errInFlight && wait <= maxSaveWait && sleep(ctx, wait); wait *= 4 {
		snap, version, err = p.toSave()
	}
	switch {
	case err != nil || version == "":
		return err
	case version == p.file.savedVersion() && isThere(p.file.path):
		p.file.note(func(st *FileStatus) { st.Err = nil }) // it may have been out of reach
		return nil
	}
	heard := time.Now().Add(-p.status(time.Now()).Age)
	bytes, err := f.write(ctx, p.file, snap, version, heard)
	if err != nil {
		return err
	}
	p.file.mu.Lock()
	defer p.file.mu.Unlock()
	st := &p.file.status
	st.Saves, st.SavedAt, st.SavedObjects, st.SavedBytes, st.Err = st.Saves+1, time.Now(), snap.In(p.namespace).Len(), bytes, nil
	if p.file.invalidations == invalidations { // not if it was invalidated while it was written
		p.file.version = version
	}
	return nil
}

// isThere reports whether the file still exists: somebody may have removed it, or its directory. If
// that cannot be told, writing it tells why.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// invalidate records that the file differs from the server, even if that is at the same version.
func (pf *partFile) invalidate() {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.version = ""
	pf.invalidations++
}

func (pf *partFile) invalidationCount() int {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.invalidations
}

func (pf *partFile) savedVersion() string {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.version
}

// toSave returns a snapshot and its version in the part, from which a watch can resume. If the
// version is empty, there is nothing to save.
func (p *part[T]) toSave() (snap *store.Snapshot[T], version string, err error) {
	if !p.beginning.over() {
		return nil, "", nil
	}
	before := p.reflector.Status()
	snap = p.inf.store.Snapshot()
	version = snap.ResourceVersionIn(p.namespace)
	if err := complete(before, p.reflector.Status(), version); err != nil {
		return nil, "", err
	}
	switch {
	case p.healing.unconditional.Load():
		return nil, "", errDiffers
	case p.inf.edited.Load(): // set before the store is edited
		return nil, "", errEdited
	case p.inf.guard.found.Load() > 0:
		return nil, "", errWrittenTo
	case p.inf.transformErrors.Load() > 0:
		return nil, "", errUntransformed
	}
	if version == "0" {
		version = ""
	}
	return snap, version, nil
}

// complete returns an error if a snapshot at the version may be incomplete, given the reflector's
// status before and after it was taken. Skipped objects are counted before the store gets the
// version, and shown before the reflector has it; so if the reflector is at the version and nothing
// was listed or skipped meanwhile, its status holds for the snapshot.
func complete(before, after reflector.Status, version string) error {
	switch {
	case after.SkippedTotal > 0 || after.LostEvents:
		return errIncomplete
	case before.Invalid != after.Invalid || before.Lists != after.Lists || object.OlderResourceVersion(after.ResourceVersion, version):
		return errInFlight
	}
	return nil
}

// write writes the file, and returns its size.
func (f *files[T]) write(ctx context.Context, pf *partFile, snap *store.Snapshot[T], version string, asOf time.Time) (int64, error) {
	cluster, err := f.cluster(ctx)
	if err != nil {
		return 0, momentaryError{err}
	}
	identity := maps.Clone(pf.identity)
	identity["cluster"] = cluster
	header := file.Header{Identity: identity, ResourceVersions: map[string]string{identity["namespace"]: version}, Written: asOf}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return 0, err
	}
	err = file.WriteFile(pf.path, header, file.Options{Key: f.Key}, func(w *file.Writer) error {
		return f.writeObjects(ctx, w, snap.AllHeld(identity["namespace"]))
	})
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(pf.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// writeObjects writes the objects in batches, so that it needs little memory. Folded ones are written as they are.
func (f *files[T]) writeObjects(ctx context.Context, w *file.Writer, objects iter.Seq[store.Held[T]]) error {
	b := saving[T]{files: f, out: w}
	b.packer.SetDiffer(f.codec.Diff)
	for held := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.add(&held); err != nil {
			return fmt.Errorf("%s: %w", held.Key(), err)
		}
		if len(b.records) == saveBatch || len(b.encoded) >= saveBytes {
			if err := b.flush(); err != nil {
				return err
			}
		}
	}
	return b.flush()
}

// saveBatch and saveBytes bound the records, and the encoded bytes of open objects, that are written together.
const saveBatch, saveBytes = 500, 1 << 20

// saving writes records in batches, since neighboring open objects are packed together.
type saving[T object.Object] struct {
	*files[T]
	out     *file.Writer
	packer  fold.Packer
	records []file.Record
	open    []int  // indexes of the records that have to be packed
	ends    []int  // ends of their encodings in encoded
	encoded []byte // these
}

// add adds an object to the batch.
func (b *saving[T]) add(held *store.Held[T]) error {
	packed, folded := held.Packed()
	if !folded {
		var err error
		if b.encoded, err = b.codec.Append(b.encoded, held.Object()); err != nil {
			return err
		}
		b.open, b.ends = append(b.open, len(b.records)), append(b.ends, len(b.encoded))
	}
	b.records = append(b.records, file.Record{
		Namespace: held.Key().Namespace, Name: held.Key().Name, UID: string(held.UID()), ResourceVersion: held.ResourceVersion(), Object: packed,
	})
	return nil
}

// flush writes the batch.
func (b *saving[T]) flush() error {
	encodings := make([][]byte, len(b.open))
	for i, from := 0, 0; i < len(b.open); i++ {
		encodings[i], from = b.encoded[from:b.ends[i]], b.ends[i]
	}
	packed := b.packer.PackAll(encodings)
	for i, at := range b.open {
		b.records[at].Object = packed[i]
	}
	for _, r := range b.records {
		if err := b.out.Write(r); err != nil {
			return err
		}
	}
	for _, p := range packed {
		b.packer.Release(p) // or it would keep their dictionaries
	}
	clear(b.records)
	b.records, b.open, b.ends, b.encoded = b.records[:0], b.open[:0], b.ends[:0], b.encoded[:0]
	return nil
}

// ownName matches the names that fileName returns, and those of temporary files for them. Others
// are not ours, even with our suffix: recordings are often named like that.
var ownName = regexp.MustCompile(`-[0-9a-f]{16}` + regexp.QuoteMeta(fileSuffix) + `(\.[0-9]+\.tmp)?$`)

// removeUnused removes files that nobody has written for long: of namespaces and scopes that programs no longer have.
func (f *files[T]) removeUnused() {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return // writing will report why
	}
	for _, entry := range entries {
		if !ownName.MatchString(entry.Name()) || f.owns(entry.Name()) || !unused(entry) {
			continue
		}
		_ = os.Remove(filepath.Join(f.Dir, entry.Name())) // it only takes room
	}
}

// owns reports whether a file belongs to a part of the informer.
func (f *files[T]) owns(name string) bool {
	for _, p := range f.inf.currentParts() {
		if filepath.Base(p.file.path) == name {
			return true
		}
	}
	return false
}

func unused(entry fs.DirEntry) bool {
	info, err := entry.Info()
	return err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > unusedFor
}
