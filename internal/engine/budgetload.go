package engine

import (
	"context"
	"iter"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// openFolded opens folded objects on several cores, once for the indexes and all handlers, if any
// of these use objects or if all can stay open.
func (inf *Informer[T]) openFolded(ctx context.Context, p *part[T], l *loaded[T]) error {
	if l.folded == nil {
		return nil
	}
	b := inf.budget // otherwise nothing is folded
	encoded := inf.store.Snapshot().FoldStats().EncodedBytes
	fit := b.fits(l.folded.Len(), encoded)
	if !fit && !inf.wantsObjects() && !inf.store.Snapshot().HasIndexes() {
		return nil
	}
	g, n := l.folded, openers()
	codecs := []*codec.Objects[T]{b.codec}
	for len(codecs) < n {
		codec, err := codec.NewAs[T](inf.objectType(), budget.SharedBytes(b.memory.Bytes()))
		if err != nil {
			return err
		}
		codecs = append(codecs, codec)
	}
	l.notified = true
	return inOrder(packedBatches(g), n, func(worker int, batch bounds) ([]T, error) {
		return g.OpenPacked(batch.from, batch.to, codecs[worker])
	}, func(objects []T) error {
		if b.meanSize() == 0 { // the first estimate of whether all fit had only the encodings to go by
			b.setMean(objects)
			fit = fit && b.fits(l.folded.Len(), encoded)
		}
		if fit {
			g.Unfold(objects)
		}
		a := g.Arrivals(objects)
		if !inf.applyArrivals(p, g, a) {
			return errPartRemoved
		}
		b.keepArrivalsOpen(a)
		return ctx.Err()
	})
}

// bounds are those of a batch.
type bounds struct{ from, to int }

// packedBatches divides folded objects into batches to open: of openBatch objects, or fewer if
// these have more than openBytes.
func packedBatches[T object.Object](g *store.Gathering[T]) iter.Seq[bounds] {
	return func(yield func(bounds) bool) {
		batch, bytes := bounds{}, 0
		for held := range g.AllHeld() {
			packed, _ := held.Packed()
			if n := batch.to - batch.from; n == openBatch || n > 0 && bytes+packed.Len() > openBytes {
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
