package memory

import (
	"runtime"
	"slices"
	"weak"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// openArrivals are arrivals as long as they are open and the collector has not found that no
// handler needs them any more.
type openArrivals[T object.Object] struct {
	arrivals weak.Pointer[store.Arrivals[T]]
	objects  int
}

// KeepArrivalsOpen keeps the arrivals open for the handlers as long as there is room; after that
// they are opened again for slow handlers.
func (b *Account[T]) KeepArrivalsOpen(a *store.Arrivals[T]) {
	open := &openArrivals[T]{weak.Make(a), a.Open()}
	runtime.AddCleanup(a, func(w weak.Pointer[Account[T]]) { // a queue may keep the arrivals, and the informer the queue
		if b := w.Value(); b != nil {
			b.forgetArrivals(open)
		}
	}, weak.Make(b))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrivals = append(b.arrivals, open)
	for room := float64(b.arrivalsRoom()); len(b.arrivals) > 1 && float64(b.openForHandlers())*b.MeanSize() > room; {
		b.releaseArrivals(1)
	}
}

// arrivalsRoom is how much memory objects may take that stay open for handlers.
func (b *Account[T]) arrivalsRoom() int64 {
	if !b.limited {
		return unlimitedArrivals
	}
	return b.memory.Bytes() / ArrivalsShare
}

// OpenForHandlers returns how many objects are open for handlers.
func (b *Account[T]) OpenForHandlers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openForHandlers()
}

// openForHandlers returns how many objects are open for handlers. mu is held.
func (b *Account[T]) openForHandlers() (n int) {
	for _, open := range b.arrivals {
		n += open.objects
	}
	return n
}

// releaseArrivals releases the n oldest arrivals. mu is held.
func (b *Account[T]) releaseArrivals(n int) {
	for _, open := range b.arrivals[:n] {
		if a := open.arrivals.Value(); a != nil {
			a.Release()
		}
	}
	b.arrivals = slices.Delete(b.arrivals, 0, n)
}

// forgetArrivals forgets arrivals that are gone.
func (b *Account[T]) forgetArrivals(open *openArrivals[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.arrivals, open); i >= 0 {
		b.arrivals = slices.Delete(b.arrivals, i, i+1)
	}
}
