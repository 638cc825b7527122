package clientgo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Wrap returns a copy of a config for the clients that a program's own list and watch functions use:
//
//	clientset, err := kubernetes.NewForConfig(clientgo.Wrap(config))
//
// An informer or reflector of this package over a ListWatch of such functions then reads the server itself: it calls
// the function as usual, lets the request that it sends through its client go to the server, and decodes the answer in
// place of the client. The request is the function's own, with its selectors, credentials, rate limit and metrics. Only
// the Accept headers differ, and the client gets a sample of the objects.
//
// A function that filters or changes objects is not read through: the sample has to come out of it as it went in, at
// the start of every list and watch. If it does not, or if the function sends more than one request, the informer says
// so once and uses what the function returns from then on, as it does with clients of other configs.
// Functions have to send their requests on the goroutine that calls them, or with the context that they are given.
func Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return divertingTransport{next} })
	anyWrapped.Store(true)
	return wrapped
}

// anyWrapped is set once there is a config whose clients can be read through.
var anyWrapped atomic.Bool

// divertingTransport hands requests that belong to a diversion to it.
type divertingTransport struct{ http.RoundTripper }

// RoundTrip sends a request, or leaves it to a diversion.
func (t divertingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if d := diversionOf(request.Context()); d != nil {
		// The next transport may be such a one, too.
		arrived := context.WithValue(request.Context(), diversionKey{}, (*diversion)(nil))
		return d.roundTrip(request.WithContext(arrived), t.RoundTripper)
	}
	return t.RoundTripper.RoundTrip(request)
}

// WrappedRoundTripper returns the wrapped transport, as client-go's transports do.
func (t divertingTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// diversion is about one call of a list or watch function. Requests that the function sends meanwhile arrive at the
// source that has called it.
type diversion struct {
	arrivals chan *arrival
	over     chan struct{} // closed when nobody waits for arrivals any longer
}

// arrival is a request of a function, which waits for the answer.
type arrival struct {
	request *http.Request
	next    http.RoundTripper
	once    sync.Once
	answers chan answer
}

// answer is what the function's client gets.
type answer struct {
	response *http.Response
	err      error
	pass     bool // send the request as usual
}

func (d *diversion) roundTrip(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	a := &arrival{request: request, next: next, answers: make(chan answer, 1)}
	select {
	case d.arrivals <- a:
	case <-d.over:
		return next.RoundTrip(request)
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	select {
	case got := <-a.answers:
		if got.pass {
			return next.RoundTrip(request)
		}
		return got.response, got.err
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// answer answers the request, unless it has been answered already.
func (a *arrival) answer(with answer) {
	a.once.Do(func() {
		if with.response != nil {
			with.response.Request = a.request
		}
		a.answers <- with
	})
}

// errPassed says that the function's client has got the server's answer: the function deals with it.
var errPassed = errors.New("the server's answer was passed on to the client")

// send sends the request as asks it, in ctx. An answer other than 200 OK goes to the function's client.
func (a *arrival) send(asks *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.request.Context()))
	context.AfterFunc(asks.Context(), cancel)
	stop := context.AfterFunc(a.request.Context(), cancel) // the client's context ends when it has its answer
	request := a.request.Clone(ctx)
	for _, name := range []string{"Accept", "Accept-Encoding"} {
		request.Header.Del(name)
		if value := asks.Header.Get(name); value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := a.next.RoundTrip(request)
	stop()
	if err != nil || response.StatusCode != http.StatusOK {
		a.answer(answer{response: response, err: err})
		return nil, errPassed
	}
	return response, nil
}

// arrivalTransport is the transport of a source that reads the answer to an arrival, which is in the request's context.
type arrivalTransport struct{}

type arrivalKey struct{}

// RoundTrip sends the arrival's request.
func (arrivalTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return request.Context().Value(arrivalKey{}).(*arrival).send(request)
}

type diversionKey struct{}

// diversionOf returns the diversion that a request with the context belongs to, or nil.
func diversionOf(ctx context.Context) *diversion {
	if d, ok := ctx.Value(diversionKey{}).(*diversion); ok {
		return d
	}
	return diverted.get()
}

// diverted has the diversions of running calls by goroutine, for functions that take no context.
var diverted goroutines

// goroutines has a diversion for some goroutines.
type goroutines struct {
	mu  sync.RWMutex
	all map[uint64]*diversion
}

// get returns the diversion of the calling goroutine, or nil.
func (g *goroutines) get() *diversion {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if len(g.all) == 0 {
		return nil
	}
	return g.all[goroutineID()]
}

// during sets the diversion of the calling goroutine while f runs.
func (g *goroutines) during(d *diversion, f func()) {
	id := goroutineID()
	g.mu.Lock()
	if g.all == nil {
		g.all = map[uint64]*diversion{}
	}
	g.all[id] = d
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.all, id)
		g.mu.Unlock()
	}()
	f()
}

// goroutineID returns the number with which a stack trace of the calling goroutine begins: "goroutine 7 [running]".
func goroutineID() uint64 {
	var buf [40]byte
	text := buf[:runtime.Stack(buf[:], false)]
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	id, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return id
}

// call is a running call of a list or watch function.
type call[R any] struct {
	diversion
	ended sync.Once
	done  chan struct{} // closed when the function has returned; then the rest is set
	returned[R]
}

// returned is what a function has returned, or panicked with.
type returned[R any] struct {
	result   R
	err      error
	panicked any
}

var errNoReturn = errors.New("the function ended its goroutine instead of returning")

// startCall calls a function on a goroutine of its own, which may outlive ctx, since the function may ignore that.
func startCall[R any](ctx context.Context, f func(context.Context) (R, error)) *call[R] {
	c := &call[R]{diversion: diversion{make(chan *arrival), make(chan struct{})}, done: make(chan struct{})}
	c.err = errNoReturn
	go diverted.during(&c.diversion, func() {
		defer close(c.done)
		defer func() { c.panicked = recover() }()
		c.result, c.err = f(context.WithValue(ctx, diversionKey{}, &c.diversion))
	})
	return c
}

// next waits for the next request of the function. It returns nil if the function has returned, or ctx has ended.
func (c *call[R]) next(ctx context.Context) *arrival {
	select {
	case a := <-c.arrivals:
		return a
	case <-c.done:
	case <-ctx.Done():
	}
	return nil
}

// succeeded reports whether the function has returned a result.
func (c *call[R]) succeeded() bool {
	select {
	case <-c.done:
		return c.err == nil && c.panicked == nil
	default:
		return false
	}
}

// wait waits for the function to return, and returns or panics with what it did.
func (c *call[R]) wait() (R, error) {
	<-c.done
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.result, c.err
}

// end sends further requests of the function as usual. What it returns later than that is passed to late, which may be
// nil, unless it is an error.
func (c *call[R]) end(late func(R)) {
	c.ended.Do(func() {
		close(c.over)
		if late == nil {
			return
		}
		go func() {
			<-c.done
			if c.err == nil && c.panicked == nil {
				late(c.result)
			}
		}()
	})
}
