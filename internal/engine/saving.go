package engine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// alwaysListUpTo is the size up to which a collection is listed despite the file. That costs no
// more than the check before a watch resumes, and leaves no doubt.
const alwaysListUpTo = 100

var (
	errIncomplete    = errors.New("not saved now: there are objects that cannot be decoded")
	errDiffers       = errors.New("not saved now: the server has other objects, and is asked for all of them")
	errEdited        = errors.New("not saved any more: the store was written to by hand, so it may not be what the server has")
	errUntransformed = errors.New("not saved any more: a transform failed, so there are objects as the server has them")
	errWrittenTo     = errors.New("not saved any more: somebody wrote to cached objects, so they may not be what the server has")
)

// newFiles returns the informer's files; nil without a directory. inf.mu is held.
func (inf *Informer[T]) newFiles() (*saved.Files[T], error) {
	if inf.cfg.Files == nil {
		return nil, nil
	}
	f, err := saved.New(*inf.cfg.Files, saved.Subject{
		Name: inf.cfg.Name, Resource: inf.cfg.Resource, Type: inf.objectType(), Identity: inf.cfg.Identity, Transformed: inf.transform != nil,
	}, saved.Owner[T](inf), inf.log)
	if err != nil {
		return nil, err
	}
	if reason, surprising := f.Disabled(); surprising {
		inf.deferredCalls.add(func() { inf.log.Log(slog.LevelWarn, "the objects are not saved", "err", reason) })
	}
	return f, nil
}

// SavedParts implements saved.Owner.
func (inf *Informer[T]) SavedParts() (parts []saved.Part[T]) {
	for _, p := range inf.currentParts() {
		parts = append(parts, p)
	}
	return parts
}

// CheckWrites implements saved.Owner.
func (inf *Informer[T]) CheckWrites() { inf.guard.sampler.CheckAll() }

// File implements saved.Part.
func (p *part[T]) File() *saved.File { return p.file }

// Heard implements saved.Part.
func (p *part[T]) Heard() time.Time { return time.Now().Add(-p.status(time.Now()).Age) }

// Ending implements saved.Part.
func (p *part[T]) Ending() usercode.Ending { return usercode.Ending{Done: p.done, By: &p.caller} }

// fileStatus returns the status of the part's file.
func (p *part[T]) fileStatus() saved.Status {
	st := p.file.Status()
	st.Serving = !st.AsOf.IsZero() && !p.beginning.over()
	return st
}

// ToSave implements saved.Part.
func (p *part[T]) ToSave() (snap *store.Snapshot[T], version string, err error) {
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
		return saved.ErrInFlight
	}
	return nil
}
