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
	// writeEvery is how often an object changes, and with that how exactly deafness is measured.
	writeEvery = 100 * time.Millisecond
	// syncPatience is how long the first list may take, while nothing is wrong.
	syncPatience = time.Minute
	firstVersion = 100_000
	// bookmarkEvery is what API servers do.
	bookmarkEvery = time.Minute
	// goesBack is how many changes a restore from a backup loses.
	goesBack = 3000
)

// world is the server, its faults, and the books about what the informer has heard of.
type world struct {
	schedule Schedule
	ca       []byte
	net      *network
	http     *http.Server
	serving  sync.WaitGroup
	herd     *herdBooks // set before anybody connects, or nil

	mu      sync.Mutex
	version uint64        // of the last change
	oldest  uint64        // the oldest version that a watch may begin at
	changed chan struct{} // closed and replaced by each change
	cut     chan struct{} // closed and replaced when all watches are to end
	cutBy   Kind          // the fault that ends them
	fault   Kind          // the lasting one that is on, or empty

	seen   uint64 // the newest version that the handler was told of
	synced chan struct{}

	// The books are open while play runs.
	open    bool
	at      time.Time // up to when they are kept
	stretch time.Duration
	awaited uint64 // the version that the last fault found; 0 when the informer has come back since
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
		ErrorLog: log.New(io.Discard, "", 0), // broken connections are what this is about
	}
	w.serving.Go(func() {
		if err := w.http.ServeTLS(w.net, "", ""); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the network has no errors
		}
	})
	return w, nil
}

func (w *world) close() {
	_ = w.http.Close() // it closes connections in memory
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

// play lets time and faults pass.
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

// begin lets a fault begin. One that lasts ends by itself.
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

// lost notes that the informer has lost its watch, and now has to come back. w.mu is held.
func (w *world) lost() {
	if w.open {
		w.awaited = w.version
		w.out.Faults++
	}
}

// account keeps the books up to now. It is called before anything in them changes. w.mu is held.
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
