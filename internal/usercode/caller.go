package usercode

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"sync"
)

// Caller is a goroutine that runs user code. Stops know it, so that a stop called from that code
// does not wait for itself. Go has no other way to detect that: the user's functions get no
// context.
type Caller struct {
	id uint64 // the goroutine's id; 0 if it could not be read

	mu      sync.Mutex
	waits   int
	waiting chan struct{} // closed while waits > 0; nil until somebody asks
}

// callers are all goroutines that run user code, of all informers, by id: handlers of two informers
// may stop each other's informer.
var callers sync.Map

// Enter registers the calling goroutine as c, until leave.
func (c *Caller) Enter() {
	if c.id = goroutineID(); c.id != 0 {
		callers.Store(c.id, c)
	}
}

// Leave is the end of Enter, on the same goroutine.
func (c *Caller) Leave() { callers.Delete(c.id) }

// Join registers the calling goroutine as c too, until leave, so that a stop called on either does
// not wait for the other.
func (c *Caller) Join() (leave func()) {
	id := goroutineID()
	if id == 0 {
		return func() {}
	}
	callers.Store(id, c)
	return func() { callers.Delete(id) }
}

// Running returns the number of goroutines that run user code now, of all informers.
func Running() (n int) {
	callers.Range(func(any, any) bool { n++; return true })
	return n
}

// CurrentCaller returns the caller of the calling goroutine, or nil.
func CurrentCaller() *Caller {
	c, _ := callers.Load(goroutineID())
	current, _ := c.(*Caller)
	return current
}

// BeginWait records that c waits for other goroutines to end, until endWait.
func (c *Caller) BeginWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits++; c.waits == 1 && c.waiting != nil {
		close(c.waiting)
	}
}

// EndWait is the end of BeginWait.
func (c *Caller) EndWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits--; c.waits == 0 {
		c.waiting = nil
	}
}

// WhenWaiting returns a channel that is closed once c waits for other goroutines to end.
func (c *Caller) WhenWaiting() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = make(chan struct{})
		if c.waits > 0 {
			close(c.waiting)
		}
	}
	return c.waiting
}

// Ending is a goroutine that is about to end: its channel, and the caller that it is.
type Ending struct {
	Done <-chan struct{}
	By   *Caller
}

// Await waits until everything has ended, or until ctx ends, whose cause is then the error. A
// goroutine that runs user code does not wait for itself, or for another one that is itself
// waiting: they would wait for each other. all is false if there was one.
func Await(ctx context.Context, ends []Ending) (all bool, err error) {
	me := CurrentCaller()
	if me != nil {
		me.BeginWait()
		defer me.EndWait()
	}
	all = true
	for _, e := range ends {
		var waiting <-chan struct{}
		if me != nil {
			waiting = e.By.WhenWaiting() // including itself, which is waiting now
		}
		select {
		case <-e.Done:
		case <-waiting:
			all = false
		case <-ctx.Done():
			switch {
			case Closed(e.Done):
			case Closed(waiting):
				all = false
			default:
				return false, context.Cause(ctx)
			}
		}
	}
	return all, nil
}

// Closed reports whether the channel is closed.
func Closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// goroutineID reads the id of the calling goroutine from the head of its stack trace, "goroutine 18
// [running]:". It takes about a microsecond, and is called once per handler and by stops. 0 means
// that the id could not be read.
func goroutineID() uint64 {
	var buf [64]byte
	line := buf[:runtime.Stack(buf[:], false)]
	line = bytes.TrimPrefix(line, []byte("goroutine "))
	digits, _, _ := bytes.Cut(line, []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return id
}
