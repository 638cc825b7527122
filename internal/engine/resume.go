package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

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
	if pf.Path == "" {
		return held, nil
	}
	if info, err := os.Stat(pf.Path); err == nil {
		p.inf.memory.Expect(info.Size())
	}
	l, err := p.inf.files.Load(ctx, pf)
	defer l.Close() //lint:ignore SA5001 a load that has failed gives back what it read, too
	if _, momentary := errors.AsType[saved.MomentaryError](err); momentary {
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
	n := l.Objects().Len()
	pf.Note(func(st *saved.Status) { st.Loaded, st.AsOf = n, l.AsOf }) // readers may see the first objects before the last one is opened
	if applied, err := p.inf.takeOver(ctx, p, &l); err != nil {
		// The file does not prove what the server has. But the server once had its objects, and
		// handlers may have been notified of them: an older list would take them back, or pass for
		// another history. If the server does not get that far, the reflector reports that it was
		// restored.
		held = intake.Contents{ResourceVersion: object.MaxResourceVersion(p.keepPartial(), p.beginning.notBefore),
			List: true}
		pf.Note(func(st *saved.Status) { st.Loaded = 0 })
		if p.inf.store.Snapshot().In(p.namespace).Len() == 0 { // otherwise readers see the objects that were opened
			pf.Note(func(st *saved.Status) { st.AsOf = time.Time{} })
		}
		p.discard(err)
		return held, nil
	} else if !applied {
		pf.Note(func(st *saved.Status) { st.Loaded, st.AsOf = 0, time.Time{} })
		return held, nil
	}
	pf.TakenOver(l.Version)
	p.inf.keepBudget()
	p.inf.notify()
	return intake.Contents{ResourceVersion: l.Version, Newest: l.Newest, List: n <= alwaysListUpTo}, nil
}

// discard removes the part's file, which cannot be used. If the system failed to read it, that may
// be temporary: such a file is kept for the next start, or the next save.
func (p *part[T]) discard(err error) {
	p.file.Note(func(st *saved.Status) { st.Discarded = err })
	p.inf.log.Log(slog.LevelWarn, "the saved objects cannot be used; they are listed instead", "err", err)
	if _, unread := errors.AsType[*fs.PathError](err); !unread {
		_ = os.Remove(p.file.Path) // otherwise the next save replaces it
	}
}

// takeOver makes the content of a file the content of the part, and sends it to the handlers as an
// initial list. It does nothing and returns false if something newer may be known. An error says
// what is wrong with an object.
func (inf *Informer[T]) takeOver(ctx context.Context, p *part[T], l *saved.Loaded[T]) (bool, error) {
	if !inf.applies(p, l) {
		return false, nil
	}
	err := inf.openLoaded(ctx, p, l)
	if ctx.Err() != nil || err == errPartRemoved {
		return false, nil
	}
	return err == nil && inf.applyFile(p, l), err
}

// openLoaded opens the folded objects of a file for the handlers and indexes, if these need them.
func (inf *Informer[T]) openLoaded(ctx context.Context, p *part[T], l *saved.Loaded[T]) (err error) {
	if l.Folded == nil {
		return nil
	}
	l.Notified, err = inf.memory.OpenFolded(ctx, l.Folded, inf.wantsObjects(), func(a *store.Arrivals[T]) error {
		if !inf.applyArrivals(p, l.Folded, a) {
			return errPartRemoved
		}
		return nil
	})
	return err
}

// applies reports whether nothing is known that may be newer than the file.
func (inf *Informer[T]) applies(p *part[T], l *saved.Loaded[T]) bool {
	inf.apply.Lock()
	defer inf.unlockApply()
	return !p.removed && p.beginning.knowsNothing() && inf.store.Snapshot().In(p.namespace).Len() == 0 &&
		!object.OlderResourceVersion(l.Version, inf.newestRemoved) // otherwise handlers were notified of changes after the file, before a part was removed
}

var errPartRemoved = errors.New("the part was removed")

// applyFile makes the content of a file the content of the part, unless that was removed.
func (inf *Informer[T]) applyFile(p *part[T], l *saved.Loaded[T]) bool {
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed {
		return false
	}
	txn := inf.writer.Begin()
	defer txn.Abort()
	if !l.Notified {
		txn.Silence()
	}
	notes := txn.Replace(p.namespace, l.Objects(), l.Version, false)
	p.markInitial(notes)
	snap := txn.Commit()
	p.deletions.Relisted(l.Version)
	p.beginning.resumeFrom(l.Version)
	if l.Notified {
		inf.push(inf.subscriptions(), notes, l.Version)
	} else {
		inf.pushInitial(snap.In(p.namespace))
	}
	return true
}
