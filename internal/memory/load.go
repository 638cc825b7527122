package memory

import (
	"context"
	"iter"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/parallel"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// OpenBatch is how many objects of a file are opened at once, openBytes how many encoded bytes: these wait for the store
// open, although they may not fit the budget.
const OpenBatch, openBytes = 200, 1 << 20

// OpenFolded opens the folded objects of a file on several cores, once for the indexes and all handlers, if any of these
// use objects or if all can stay open. They arrive in batches. It reports whether they did.
func (b *Account[T]) OpenFolded(
	ctx context.Context, g *store.Gathering[T], wantsObjects bool, arrive func(*store.Arrivals[T]) error,
) (notified bool, err error) {
	snap := b.owner.Store().Snapshot()
	encoded := snap.FoldStats().EncodedBytes
	fit := b.fits(g.Len(), encoded)
	if !fit && !wantsObjects && !snap.HasIndexes() {
		return false, nil
	}
	n := parallel.Workers()
	codecs := []*codec.Objects[T]{b.Codec()}
	for len(codecs) < n {
		codec, err := codec.NewAs[T](b.typ, b.sharedLimit())
		if err != nil {
			return false, err
		}
		codecs = append(codecs, codec)
	}
	return true, parallel.InOrder(packedBatches(g), n, func(worker int, batch bounds) ([]T, error) {
		return g.OpenPacked(batch.from, batch.to, codecs[worker])
	}, func(objects []T) error {
		if b.MeanSize() == 0 { // the first estimate of whether all fit had only the encodings to go by
			b.setMean(objects)
			fit = fit && b.fits(g.Len(), encoded)
		}
		if fit {
			g.Unfold(objects)
		}
		a := g.Arrivals(objects)
		if err := arrive(a); err != nil {
			return err
		}
		b.KeepArrivalsOpen(a)
		return ctx.Err()
	})
}

// bounds are those of a batch.
type bounds struct{ from, to int }

// packedBatches divides folded objects into batches to open: of OpenBatch objects, or fewer if
// these have more than openBytes.
func packedBatches[T object.Object](g *store.Gathering[T]) iter.Seq[bounds] {
	return func(yield func(bounds) bool) {
		batch, bytes := bounds{}, 0
		for held := range g.AllHeld() {
			packed, _ := held.Packed()
			if n := batch.to - batch.from; n == OpenBatch || n > 0 && bytes+packed.Len() > openBytes {
				if !yield(batch) {
					return
				}
				batch.from, bytes = batch.to, 0
			}
			batch.to, bytes = batch.to+1, bytes+packed.Len()
		}
		if batch.to > batch.from {
			yield(batch)
		}
	}
}
