package deaf

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidings/tidings/bench/internal/server"
)

const (
	// writeEvery is the interval at which objects change, and so the precision at which deafness is measured.
	writeEvery = 100 * time.Millisecond
	// syncPatience is the timeout for the first list, while nothing is wrong.
	syncPatience = time.Minute
	firstVersion = 100_000
	// bookmarkEvery is the interval of API servers.
	bookmarkEvery = time.Minute
	// goesBack is the number of changes that a restore from a backup loses.
	goesBack = 3000
)

// world is the server, its faults, and the record of what the informer has received.
type world struct {
	schedule Schedule
	ca       []byte
	net      *network
	http     *http.Server
	serving  sync.WaitGroup
	herd     *herdBooks // set before any connection, or nil

	mu      sync.Mutex
	version uint64        // of the last change
	oldest  uint64        // oldest version from which a watch may start
	changed chan struct{} // closed and replaced on every change
	cut     chan struct{} // closed and replaced when all watches are to end
	cutBy   Kind          // the fault that ends the watches
	fault   Kind          // the current lasting fault, or empty

	seen   uint64 // newest version that the handler has received
	synced chan struct{}

	// The record is open while play runs.
	open    bool
	at      time.Time // up to when it is complete
	stretch time.Duration
	awaited uint64 // version at the last fault; 0 once the informer has recovered
	out     Result
}

func newWorld(schedule Schedule) (*world, error) {
	certificate, ca, err := server.NewIdentity(hostName)
	if err != nil {
		return nil, err
	}
	w := &world{
		schedule: schedule, ca: ca, net: newNetwork(), version: firstVersion, oldest: firstVersion,
		changed: make(chan struct{}), cut: make(chan struct{}), synced: make(chan struct{}),
	}
	w.http = &http.Server{
		Handler: http.HandlerFunc(w.serve), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog: log.New(io.Discard, "", 0), // broken connections are expected
	}
	w.serving.Go(func() {
		if err := w.http.ServeTLS(w.net, "", ""); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the network returns no errors
		}
	})
	return w, nil
}

func (w *world) close() {
	_ = w.http.Close() // closes connections in memory
	w.net.breakAll()
	w.serving.Wait()
}

// see is what the informer's handler calls.
func (w *world) see(version string) {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("the handler was told of version %q, which the server never sent", version))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account()
	if v > w.version { // from before a restore
		return
	}
	w.seen = max(w.seen, v)
	if w.seen >= firstVersion && !closed(w.synced) {
		close(w.synced)
	}
	if w.awaited != 0 && w.seen > w.awaited && w.fault == "" {
		w.awaited = 0
		w.out.CameBack++
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *world) waitSynced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	select {
	case <-w.synced:
		return nil
	case <-ctx.Done():
		return errors.New("not synced, though nothing is wrong with the server")
	}
}

// play lets time pass and runs the faults.
func (w *world) play() {
	w.mu.Lock()
	w.open, w.at = true, time.Now()
	w.mu.Unlock()
	start, faults := time.Now(), w.schedule.Faults
	writes := time.NewTicker(writeEvery)
	defer writes.Stop()
	end := time.After(w.schedule.Lasts)
	for {
		var next <-chan time.Time
		if len(faults) > 0 {
			next = time.After(time.Until(start.Add(faults[0].At)))
		}
		select {
		case <-writes.C:
			w.write()
		case <-next:
			w.begin(faults[0])
			faults = faults[1:]
		case <-end:
			w.mu.Lock()
			w.account()
			w.open = false
			w.mu.Unlock()
			return
		}
	}
}

// write changes an object.
func (w *world) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account()
	w.version++
	close(w.changed)
	w.changed = make(chan struct{})
}

// begin begins a fault. A lasting one ends on its own.
func (w *world) begin(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account()
	w.lost()
	if f.Kind == Expired {
		w.oldest = w.version + 1
	}
	if f.Lasts > 0 {
		w.fault = f.Kind
		time.AfterFunc(f.Lasts, w.end)
	}
	if f.Kind == Refused || f.Kind == Restored {
		w.net.refuse(true)
		w.net.breakAll()
	}
	if f.Kind == Restored {
		w.version -= goesBack
		w.oldest, w.seen, w.awaited = w.version, 0, w.version
	}
	w.cutBy = f.Kind
	close(w.cut)
	w.cut = make(chan struct{})
}

func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account()
	w.fault = ""
	w.net.refuse(false)
}

// lost records that the informer has lost its watch and has to recover. w.mu is held.
func (w *world) lost() {
	if w.open {
		w.awaited = w.version
		w.out.Faults++
	}
}

// account updates the record to the current time. It is called before anything that it depends on changes.
// w.mu is held.
func (w *world) account() {
	if !w.open {
		return
	}
	now := time.Now()
	passed := now.Sub(w.at)
	w.at = now
	if w.fault != "" {
		return
	}
	w.out.Up += passed
	if w.seen >= w.version {
		w.stretch = 0
		return
	}
	w.out.Deaf += passed
	w.stretch += passed
	w.out.Longest = max(w.out.Longest, w.stretch)
}

func (w *world) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out
}
