package memory

import (
	"math"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/store"
)

// Measure implements budget.Account.
func (b *Account[T]) Measure() int64 {
	snap := b.owner.Store().Snapshot()
	st := snap.FoldStats()
	if b.sample(snap, st) {
		st = snap.FoldStats() // the weight of templates may have changed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	open := float64(st.Open+st.Recent+b.owner.Guarded(st.Recent)+b.openForHandlers()) * b.MeanSize()
	now := st.Bytes + st.TemplateBytes + int64(open) + b.Gathered.Load() + b.counts.Shared +
		int64(snap.Len())*PerObject + int64(st.IndexEntries)*PerEntry + int64(len(b.counts.Changed))*PerChanged
	used := b.memory.Change(now - b.used.Swap(now))
	b.owner.Store().KeepTemplates(b.mostTemplates(st, used-int64(open)-st.TemplateBytes))
	return now
}

// mostTemplates returns what decoded templates may take if everything else that need not be open takes this much.
func (b *Account[T]) mostTemplates(st store.FoldStats, rest int64) int64 {
	if !b.limited { // those that are not used are dropped
		return max(st.Bytes, b.leastTemplates())
	}
	left := b.memory.Bytes() - b.memory.Slack() - rest // with more, folding would never end
	return max(left-left/32, b.leastTemplates())
}

// leastTemplates is what decoded templates may always take.
func (b *Account[T]) leastTemplates() int64 {
	if !b.limited {
		return small / 8
	}
	return b.memory.Bytes() / RecentShare
}

// Spare implements budget.Account.
func (b *Account[T]) Spare() int64 {
	return max(0, b.owner.Store().Snapshot().FoldStats().TemplateBytes-b.leastTemplates())
}

// MeanSize returns the estimated size of an open object; 0 if none was measured.
func (b *Account[T]) MeanSize() float64 { return math.Float64frombits(b.mean.Load()) }

// sample measures a sample of open objects again, if their number or many of them have changed. It
// reports whether it did.
func (b *Account[T]) sample(snap *store.Snapshot[T], st store.FoldStats) (due bool) {
	b.mu.Lock()
	after := max(ResampleAfter, b.counts.Objects/ResampleShare)
	n := &b.counts
	due = st.Open > n.Sampled+n.Sampled/2 || snap.Len() > n.Objects+n.Objects/2 ||
		n.Changes > after || st.Opens > n.Opens+uint64(after) ||
		n.Large > float64(max(minLarge, b.memory.Bytes()/largeShare))
	if due {
		n.Sampled, n.Objects, n.Opens, n.Changes, n.Large = st.Open, snap.Len(), st.Opens, 0, 0
	}
	b.mu.Unlock()
	if !due {
		return false
	}
	shared := b.SharedBytes()
	b.mu.Lock()
	b.counts.Shared = shared
	b.mu.Unlock()
	b.setMean(snap.SampleOpen(sampleSize))
	b.ScaleTemplates()
	return true
}

// ScaleTemplates adjusts the estimate for decoded templates to a measured sample.
func (b *Account[T]) ScaleTemplates() {
	objects, guessed := b.owner.Store().SampleTemplates(templateSample)
	if size := budget.SizeWithoutText(objects); size > 0 && guessed > 0 {
		b.owner.Store().ScaleTemplates(float64(size) / float64(guessed))
	}
}

// SharedBytes returns the memory of the tables of shared parts, in the sources and the codec.
func (b *Account[T]) SharedBytes() (bytes int64) {
	bytes = b.owner.SharedBytes()
	if codec := b.Codec(); codec != nil {
		bytes += codec.SharedBytes()
	}
	return bytes
}

// fits reports whether objects with this total size of encodings can all stay open with some room
// to spare. When open most take less than twice that and a kilobyte each; those with many small
// entries take more, which shows once some have been measured.
func (b *Account[T]) fits(objects int, encoded int64) bool {
	open := max(2*encoded+int64(objects)<<10, int64(b.MeanSize()*float64(objects)))
	if !b.limited {
		return open <= small && !Eager
	}
	return b.memory.Used()+open <= b.memory.Bytes()-b.memory.Bytes()/4
}

// AssumeSize makes the account count open objects with this size until it measures some. It is for tests.
func (b *Account[T]) AssumeSize(mean float64) { b.mean.Store(math.Float64bits(mean)) }

// setMean sets the size of an open object to the mean of these.
func (b *Account[T]) setMean(objects []T) {
	if len(objects) == 0 {
		return
	}
	mean := budget.MeanOf(objects)
	b.mean.Store(math.Float64bits(mean))
	if b.limited {
		b.owner.Store().KeepRecent(int(float64(b.memory.Bytes()/RecentShare) / mean))
	}
}

// OpenBytes implements budget.Account.
func (b *Account[T]) OpenBytes() int64 {
	st := b.owner.Store().Snapshot().FoldStats()
	return int64(float64(st.Open-st.Unfoldable) * b.MeanSize())
}
