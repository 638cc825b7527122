package deaf

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// Herd is the load on a server when many informers reconnect at once.
type Herd struct {
	// Seconds start when the server is back.
	Seconds []Second
	// Refused is the maximum number of connection attempts per second while it was away.
	Refused int
	// Current is when the last informer had a watch open again; 0 if that did not happen.
	Current time.Duration
	// AtOnce is the maximum number of concurrent requests, and Throttled the number of requests answered with 429.
	AtOnce, Throttled int
}

// Second counts the requests within a second, and the bytes sent.
type Second struct{ Lists, Watches, Bytes int }

// Peak returns the maximum requests and bytes of a second.
func (h Herd) Peak() (requests, bytes int) {
	for _, s := range h.Seconds {
		requests, bytes = max(requests, s.Lists+s.Watches), max(bytes, s.Bytes)
	}
	return requests, bytes
}

// Total adds up all seconds.
func (h Herd) Total() (sum Second) {
	for _, s := range h.Seconds {
		sum.Lists += s.Lists
		sum.Watches += s.Watches
		sum.Bytes += s.Bytes
	}
	return sum
}

const (
	// herdUp is how long everything works before the server goes away, and herdSeen how long it is
	// observed after it is back.
	herdUp, herdSeen = time.Minute, time.Minute
	// herdWrites is the interval at which an object changes. Every informer gets each change.
	herdWrites = 5 * time.Second
	// herdSeats limits concurrent requests, to what an API server with default settings admits of
	// priority level workload-low, to which service accounts belong. That server would queue
	// others; this one rejects them. herdSeatTime is how long a request takes, for a watch until it
	// is established: long, as on a server that has just started.
	herdSeats, herdSeatTime = 245, 50 * time.Millisecond
)

// MeasureHerd runs processes with informers, in virtual time, on a server that is away for some
// time. With expired, the server has dropped earlier versions when it comes back, so that
// everything has to be listed.
func MeasureHerd(t *testing.T, name engine.Name, processes, informers int, away time.Duration, expired bool) (herd Herd, err error) {
	synctest.Test(t, func(t *testing.T) { herd, err = runHerd(t.Context(), name, processes, informers, away, expired) })
	return herd, err
}

func runHerd(ctx context.Context, name engine.Name, processes, informers int, away time.Duration, expired bool) (Herd, error) {
	prepare()
	w, err := newWorld(Schedule{})
	if err != nil {
		return Herd{}, err
	}
	b := &herdBooks{world: w, wanted: processes * informers}
	w.herd, w.net.onRefuse = b, b.wasRefused
	writes := make(chan struct{})
	go b.write(writes)
	var running []engine.Engine
	defer func() {
		close(writes)
		for _, e := range running {
			_ = e.Stop() // Stop only fails when its context ends
		}
		w.close()
	}()
	config := engine.Config{
		Server: server.Address{Host: "https://" + hostName, CA: w.ca}, Corpus: corpus.ConfigMaps, Encoding: server.Protobuf, Dial: w.net.dial, Parts: informers,
	}
	for range processes {
		e, err := engine.Start(ctx, name, config, func(string) {})
		if err != nil {
			return Herd{}, err
		}
		running = append(running, e)
		time.Sleep(time.Second) // processes do not start simultaneously
	}
	time.Sleep(herdUp)
	if open := b.watching(); open != b.wanted {
		return Herd{}, fmt.Errorf("%s: %d of %d watches are open, though nothing is wrong", name, open, b.wanted)
	}
	b.restart(away, expired)
	time.Sleep(away + herdSeen)
	return b.result(), nil
}

// herdBooks counts requests to a server.
type herdBooks struct {
	world  *world
	wanted int // watches, in normal operation

	mu      sync.Mutex
	back    time.Time // when the server came back; zero before that
	open    int       // watches
	busy    int       // seats
	refused map[int]int
	left    time.Time // when the server went away
	out     Herd
}

// write changes an object periodically.
func (b *herdBooks) write(done <-chan struct{}) {
	ticker := time.NewTicker(herdWrites)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.world.write()
		case <-done:
			return
		}
	}
}

func (b *herdBooks) restart(away time.Duration, expired bool) {
	b.mu.Lock()
	b.left, b.refused = time.Now(), map[int]int{}
	b.mu.Unlock()
	b.world.begin(Fault{Kind: Refused, Lasts: away})
	if expired {
		b.world.forget()
	}
	time.AfterFunc(away, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.back = time.Now()
	})
}

// forget expires all versions from which a watch could be resumed.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.oldest = w.version + 1
}

func (b *herdBooks) watching() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// second returns the current second, or nil while the server is not back. mu is held.
func (b *herdBooks) second() *Second {
	if b.back.IsZero() {
		return nil
	}
	n := int(time.Since(b.back) / time.Second)
	for len(b.out.Seconds) <= n {
		b.out.Seconds = append(b.out.Seconds, Second{})
	}
	return &b.out.Seconds[n]
}

func (b *herdBooks) asked(watch bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.second()
	switch {
	case s == nil:
	case watch:
		s.Watches++
	default:
		s.Lists++
	}
}

// admit takes a seat for the time of a request, or returns false if the server has no free seat.
func (b *herdBooks) admit() bool {
	b.mu.Lock()
	back := !b.back.IsZero()
	if back && b.busy == herdSeats {
		b.out.Throttled++
		b.mu.Unlock()
		return false
	}
	b.busy++
	if back {
		b.out.AtOnce = max(b.out.AtOnce, b.busy)
	}
	b.mu.Unlock()
	time.Sleep(herdSeatTime) // in virtual time
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy--
	return true
}

func (b *herdBooks) sent(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.second(); s != nil {
		s.Bytes += n
	}
}

// opened adds n to the number of watches that are up to date.
func (b *herdBooks) opened(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += n
	if b.open == b.wanted && !b.back.IsZero() {
		b.out.Current = time.Since(b.back)
	}
}

func (b *herdBooks) wasRefused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused != nil {
		b.refused[int(time.Since(b.left)/time.Second)]++
	}
}

func (b *herdBooks) result() Herd {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.refused {
		b.out.Refused = max(b.out.Refused, n)
	}
	return b.out
}

// herdWriter counts the bytes of a response.
type herdWriter struct {
	http.ResponseWriter
	books *herdBooks
}

func (w herdWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.books.sent(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w herdWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
