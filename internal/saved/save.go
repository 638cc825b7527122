package saved

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

// ErrInFlight means that a part cannot be saved at this moment, but soon.
var ErrInFlight = errors.New("not saved now: changes are on their way into the store")

// Endings returns the end of the goroutine that Run occupies. f may be nil.
func (f *Files[T]) Endings() []usercode.Ending {
	if f == nil {
		return nil
	}
	return []usercode.Ending{{Done: f.done, By: &f.caller}}
}

// Run saves the parts periodically, and when the life of the informer ends.
func (f *Files[T]) Run(life context.Context) {
	defer close(f.done)
	f.caller.Enter() // the logger is the user's
	defer f.caller.Leave()
	if f.disabledReason != nil {
		return
	}
	f.removeUnused()
	timer := time.NewTimer(jitter(min(firstSave, f.Every)))
	defer timer.Stop()
	for {
		select {
		case <-life.Done():
			f.awaitParts()
			f.owner.CheckWrites()
			f.SaveAll(context.Background())
			return
		case <-timer.C:
			began := time.Now()
			f.SaveAll(life)
			timer.Reset(max(jitter(f.Every), saveIntervalFactor*time.Since(began)))
		}
	}
}

// awaitParts waits until the parts have ended, so that what they deliver is saved too. It does not
// wait for a part that is itself waiting, perhaps for the save, nor long for a source that hangs.
func (f *Files[T]) awaitParts() {
	enough := time.NewTimer(awaitPartsTimeout)
	defer enough.Stop()
	for _, p := range f.owner.SavedParts() {
		end := p.Ending()
		select {
		case <-end.Done:
		case <-end.By.WhenWaiting():
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

// SaveAll saves the parts one after another. If the cluster cannot be identified, it tries just one
// part: a server that is down may take long to answer.
func (f *Files[T]) SaveAll(ctx context.Context) {
	for _, p := range f.owner.SavedParts() {
		err := f.Save(ctx, p)
		if _, unknown := err.(MomentaryError); unknown || ctx.Err() != nil { // not by AsType, which calls methods of the user's errors
			return
		}
	}
}

// Save saves the objects of a part, if there is anything new, and records the outcome.
func (f *Files[T]) Save(ctx context.Context, p Part[T]) error {
	err := f.trySave(ctx, p)
	if err != nil && ctx.Err() == nil {
		p.File().Note(func(st *Status) { st.Failures, st.Err = st.Failures+1, err })
		f.log.Log(slog.LevelWarn, "the objects are not saved", "err", err)
	}
	return err
}

// trySave saves the objects of a part, if there is anything new. A panic in a method of the user's
// source or type becomes an error.
func (f *Files[T]) trySave(ctx context.Context, p Part[T]) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("not saved now: panic: %v", reason)
		}
	}()
	pf := p.File()
	invalidations := pf.invalidationCount()
	snap, version, err := p.ToSave()
	for wait := time.Millisecond; err == ErrInFlight && wait <= maxSaveWait && sleep(ctx, wait); wait *= 4 {
		snap, version, err = p.ToSave()
	}
	switch {
	case err != nil || version == "":
		return err
	case version == pf.SavedVersion() && isThere(pf.Path):
		pf.Note(func(st *Status) { st.Err = nil }) // it may have been out of reach
		return nil
	}
	heard := p.Heard()
	bytes, err := f.Write(ctx, pf, snap, version, heard)
	if err != nil {
		return err
	}
	pf.mu.Lock()
	defer pf.mu.Unlock()
	st := &pf.status
	st.Saves, st.SavedAt, st.SavedObjects, st.SavedBytes, st.Err = st.Saves+1, time.Now(), snap.In(pf.Identity["namespace"]).Len(), bytes, nil
	if pf.invalidations == invalidations { // not if it was invalidated while it was written
		pf.version = version
	}
	return nil
}

// isThere reports whether the file still exists: somebody may have removed it, or its directory. If
// that cannot be told, writing it tells why.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Invalidate records that the file differs from the server, even if that is at the same version.
func (pf *File) Invalidate() {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.version = ""
	pf.invalidations++
}

func (pf *File) invalidationCount() int {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.invalidations
}

// SavedVersion returns the version of the file; "" if it is unknown, or the file is wrong.
func (pf *File) SavedVersion() string {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.version
}

// Write writes the file, and returns its size.
func (f *Files[T]) Write(ctx context.Context, pf *File, snap *store.Snapshot[T], version string, asOf time.Time) (int64, error) {
	cluster, err := f.cluster(ctx)
	if err != nil {
		return 0, MomentaryError{err}
	}
	identity := maps.Clone(pf.Identity)
	identity["cluster"] = cluster
	header := file.Header{Identity: identity, ResourceVersions: map[string]string{identity["namespace"]: version}, Written: asOf}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return 0, err
	}
	err = file.WriteFile(pf.Path, header, file.Options{Key: f.Key}, func(w *file.Writer) error {
		return f.writeObjects(ctx, w, snap.AllHeld(identity["namespace"]))
	})
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(pf.Path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// writeObjects writes the objects in batches, so that it needs little memory. Folded ones are written as they are.
func (f *Files[T]) writeObjects(ctx context.Context, w *file.Writer, objects iter.Seq[store.Held[T]]) error {
	b := saving[T]{Files: f, out: w}
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
	*Files[T]
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
func (f *Files[T]) removeUnused() {
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
func (f *Files[T]) owns(name string) bool {
	for _, p := range f.owner.SavedParts() {
		if filepath.Base(p.File().Path) == name {
			return true
		}
	}
	return false
}

func unused(entry fs.DirEntry) bool {
	info, err := entry.Info()
	return err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > unusedFor
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
