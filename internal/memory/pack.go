package memory

import (
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Fold implements budget.Account.
func (b *Account[T]) Fold(all bool, enough func() bool) {
	b.mu.Lock()
	b.releaseArrivals(len(b.arrivals))
	b.mu.Unlock()
	b.Measure()
	if enough() {
		return
	}
	b.PackAgain()
	for !enough() {
		keys := b.TakeChanged()
		if len(keys) == 0 {
			break
		}
		b.Apply(b.owner.Store().PackKeys(keys, all))
	}
	left := b.owner.Store().Snapshot().Len()
	for left > 0 && !enough() {
		if st := b.owner.Store().Snapshot().FoldStats(); st.Open <= st.Unfoldable {
			return
		}
		cold := b.owner.Store().PackCold(b.scanFrom, VisitBatch, all)
		b.scanFrom = cold.Next
		left -= max(1, cold.Visited)
		b.Apply(cold)
	}
}

// PackAgain repacks all objects whose dictionaries few others need, to free these, if they take enough memory.
func (b *Account[T]) PackAgain() {
	st := b.owner.Store().Snapshot().FoldStats()
	if st.StaleBytes <= b.memory.Bytes()/StaleShare {
		return
	}
	var next object.Key
	for left := b.owner.Store().Snapshot().Len(); left > 0; {
		cold := b.owner.Store().PackAgain(next, VisitBatch)
		next = cold.Next
		left -= max(1, cold.Visited)
		b.Apply(cold)
	}
}

// Repack implements budget.Account.
func (b *Account[T]) Repack(enough func() bool) (more bool) {
	if b.repackFrom == (object.Key{}) {
		b.mu.Lock()
		due := b.counts.Single >= b.owner.Store().Snapshot().Len()/RepackShare
		if due {
			b.counts.Single = 0
		}
		b.mu.Unlock()
		if !due {
			return false
		}
	}
	for left := RepackBatch; left > 0 && !enough(); {
		cold := b.owner.Store().PackTogether(b.repackFrom, left)
		b.repackFrom = cold.Next
		left -= max(1, cold.Visited)
		b.Apply(cold)
		if b.repackFrom == (object.Key{}) {
			return false
		}
	}
	return b.repackFrom != (object.Key{})
}

// TakeChanged takes the oldest keys of changed objects, up to FoldBatch.
func (b *Account[T]) TakeChanged() []object.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.counts.Changed), FoldBatch)
	keys := b.counts.Changed[:n:n]
	b.counts.Changed = b.counts.Changed[n:]
	if len(b.counts.Changed) == 0 {
		b.counts.Changed = nil
	}
	return keys
}

// Apply folds the packed objects that are still in the store.
func (b *Account[T]) Apply(cold *store.Cold[T]) {
	if cold.Len() > 0 {
		b.owner.Fold(cold)
	}
	b.Measure()
}
