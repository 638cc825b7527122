package reflector_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// shared is one server for many reflectors. Each of its resources responds with an error as long as it has one; all
// of them do when the server has one.
type shared struct {
	mu       sync.Mutex
	down     error
	errs     map[string]error
	requests []time.Time
	asked    map[string]int       // how often, by resource
	watching map[string]time.Time // when a reflector's watch was opened
	streams  []context.CancelCauseFunc
}

func (s *shared) fail(resource string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resource == "" {
		s.down, s.watching = err, map[string]time.Time{}
		for _, cancel := range s.streams {
			cancel(io.ErrUnexpectedEOF)
		}
		s.streams = nil
		return
	}
	s.errs[resource] = err
}

// times returns when the watches of n reflectors were opened, and the times of all requests since.
func (s *shared) since(start time.Time) (opened map[string]time.Duration, requests []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened = map[string]time.Duration{}
	for name, at := range s.watching {
		opened[name] = at.Sub(start)
	}
	for _, at := range s.requests {
		if !at.Before(start) {
			requests = append(requests, at)
		}
	}
	return opened, requests
}

// part is one reflector's view of a shared server.
type part struct {
	*shared
	name, resource string
}

func (p part) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note()
	return source.ListResult{ResourceVersion: "5"}, p.err()
}

func (p part) note() {
	p.shared.requests = append(p.shared.requests, time.Now())
	p.asked[p.resource]++
}

func (p part) err() error {
	if p.down != nil {
		return p.down
	}
	return p.errs[p.resource]
}

func (p part) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note()
	if err := p.err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p.shared.streams = append(p.shared.streams, cancel)
	p.watching[p.name] = time.Now()
	var reads []read
	if opts.SendInitialEvents {
		reads = []read{got(initialEnd("5"))}
	}
	return &causeStream{scriptStream{ctx: ctx, reads: reads}}, nil
}

// causeStream ends with the cause of its context's end.
type causeStream struct{ scriptStream }

func (s *causeStream) Next(buf events) (events, error) {
	buf, err := s.scriptStream.Next(buf)
	if err != nil {
		err = context.Cause(s.ctx)
	}
	return buf, err
}

// resources starts a reflector for each of the resources.
func (s *shared) start(t *testing.T, peers *reflector.Peers, resources ...string) (stop func()) {
	if s.errs == nil {
		s.errs = map[string]error{}
	}
	s.asked, s.watching = map[string]int{}, map[string]time.Time{}
	var stops []func()
	for i, resource := range resources {
		sink := &script{start: time.Now()}
		r, err := reflector.New(reflector.Options[thing]{
			Source: part{s, fmt.Sprint(resource, i), resource}, Sink: sink, Seed: uint64(i + 1), Peers: peers,
			Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource},
		})
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, run(t, r))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// When one of fifty reflectors succeeds after an outage, all do, but not at the same instant.
func TestPeersAfterAnOutage(t *testing.T) {
	for name, outage := range map[string]error{"refused": syscall.ECONNREFUSED, "cut": io.ErrUnexpectedEOF, "500": errInternal} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var resources []string
				for i := range 50 {
					resources = append(resources, fmt.Sprint("r", i))
				}
				s := &shared{}
				stop := s.start(t, new(reflector.Peers), resources...)
				defer stop()
				time.Sleep(time.Minute)
				s.fail("", outage)
				time.Sleep(10 * time.Minute)
				up := time.Now()
				s.fail("", nil)
				time.Sleep(8 * time.Second)
				opened, requests := s.since(up)
				if len(opened) != 50 {
					t.Errorf("%d of 50 watch again after 8 seconds", len(opened))
				}
				if len(requests) > 4*50 {
					t.Errorf("%d requests", len(requests))
				}
				const most, span = 15, 100 * time.Millisecond
				for i := most; i < len(requests); i++ {
					if within := requests[i].Sub(requests[i-most]); within < span {
						t.Fatalf("%d requests within %v", most+1, within)
					}
				}
			})
		})
	}
}

// When the connection of many reflectors breaks, all resume their watches at once, as client-go's do.
func TestPeersAfterABreak(t *testing.T) {
	for _, n := range []int{50, 500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { breakFor(t, n) })
	}
}

func breakFor(t *testing.T, n int) {
	synctest.Test(t, func(t *testing.T) {
		var resources []string
		for i := range n {
			resources = append(resources, fmt.Sprint("r", i))
		}
		s := &shared{}
		defer s.start(t, new(reflector.Peers), resources...)()
		time.Sleep(time.Minute)
		at := time.Now()
		s.cutAll()
		time.Sleep(2 * time.Second)
		opened, requests := s.since(at)
		if len(opened) != n || len(requests) != n {
			t.Fatalf("%d of %d watch again, after %d requests", len(opened), n, len(requests))
		}
		if last := requests[n-1].Sub(at); last > 0 {
			t.Errorf("the last came after %v", last)
		}
	})
}

// A reflector with a Retry-After retries at that time, and not much later, even if it is one of many.
func TestRetryAfterIsNotStretched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resources := []string{"a", "b", "c", "d", "e"}
		s := &shared{}
		defer s.start(t, new(reflector.Peers), resources...)()
		time.Sleep(time.Minute)
		s.fail("", apierrors.NewTooManyRequests("busy", 1))
		time.Sleep(20 * time.Second)
		at := time.Now()
		s.fail("", nil)
		time.Sleep(1100 * time.Millisecond)
		opened, requests := s.since(at)
		if len(opened) != len(resources) || len(requests) != len(resources) {
			t.Errorf("%d of %d watch again, after %d requests", len(opened), len(resources), len(requests))
		}
	})
}

// A resource that one reflector finds, or that is announced, wakes the reflectors that wait for it, and no others.
func TestPeersFindAResource(t *testing.T) {
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	tests := map[string]func(t *testing.T, s *shared, peers *reflector.Peers) (stop func()){
		"told": func(_ *testing.T, _ *shared, peers *reflector.Peers) func() {
			peers.ResourceAppeared(things)
			return func() {}
		},
		"told of all versions": func(_ *testing.T, _ *shared, peers *reflector.Peers) func() {
			peers.ResourceAppeared(schema.GroupVersionResource{Group: "example.com", Resource: "things"})
			return func() {}
		},
		"found": func(t *testing.T, s *shared, peers *reflector.Peers) func() {
			r, err := reflector.New(reflector.Options[thing]{Source: part{s, "late", "things"}, Sink: &script{}, Resource: things, Peers: peers})
			if err != nil {
				t.Fatal(err)
			}
			return run(t, r)
		},
	}
	for name, find := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, peers := &shared{}, new(reflector.Peers)
				stop := s.start(t, peers, "things", "others", "things")
				defer stop()
				synctest.Wait()
				s.fail("things", errMissing)
				s.fail("others", errMissing)
				s.cutAll()
				time.Sleep(10 * time.Minute)
				s.fail("things", nil)
				s.fail("others", nil)
				s.forget()
				at := time.Now()
				stopLate := find(t, s, peers)
				defer stopLate()
				time.Sleep(100 * time.Millisecond)
				opened, _ := s.since(at)
				for name, want := range map[string]bool{"things0": true, "others1": false, "things2": true} {
					if _, ok := opened[name]; ok != want {
						t.Errorf("%s is open: %t", name, ok)
					}
				}
			})
		})
	}
}

// cutAll ends all watches; forget forgets when they were opened.
func (s *shared) cutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.streams {
		cancel(io.ErrUnexpectedEOF)
	}
	s.streams = nil
}

func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = map[string]time.Time{}
}

// A reflector that fails however often others succeed is not driven by them. One that never
// succeeded makes one kind of request; one that did may make two, one right after the other.
func TestPeersDoNotDrive(t *testing.T) {
	for name, err := range map[string]error{"cut": io.ErrUnexpectedEOF, "500": errInternal, "404": errMissing} {
		t.Run(name, func(t *testing.T) { drive(t, func(s *shared) { s.fail("things", err) }, func(*shared) {}, 120) })
		t.Run(name+" later", func(t *testing.T) { drive(t, func(*shared) {}, func(s *shared) { s.fail("things", err) }, 180) })
	}
}

// drive counts the requests of one reflector in ten minutes in which another one recovers 300
// times. The functions are called before the start and after the first sync.
func drive(t *testing.T, before, after func(*shared), most int) {
	synctest.Test(t, func(t *testing.T) {
		s, peers := &shared{errs: map[string]error{}}, new(reflector.Peers)
		before(s)
		stop := s.start(t, peers, "others", "things")
		defer stop()
		synctest.Wait()
		after(s)
		s.cutAll()
		time.Sleep(time.Minute)
		asked := s.askedOf("things")
		for range 300 {
			time.Sleep(2 * time.Second)
			s.cutAll() // and the others come back at once
		}
		if n := s.askedOf("things") - asked; n < 20 || n > most {
			t.Errorf("%d requests in ten minutes", n)
		}
		if n := s.askedOf("others"); n < 300 {
			t.Errorf("the others made only %d", n)
		}
	})
}

func (s *shared) askedOf(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[resource]
}

// A reflector that begins during an outage knows from its peers that the server exists.
func TestPeersKnowTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, peers := &shared{}, new(reflector.Peers)
		stop := s.start(t, peers, "things")
		time.Sleep(time.Minute)
		stop()
		for _, known := range []bool{true, false} {
			if !known {
				peers = new(reflector.Peers)
			}
			late := &script{answers: []answer{failed(syscall.ECONNREFUSED)}}
			playInBubble(t, late, reflector.Options[thing]{Peers: peers}, time.Second)
			if e := late.errs[0]; e.NeverReached == known || e.Permanent() == known {
				t.Errorf("a server that is known: %t: never reached %t, permanent %t", known, e.NeverReached, e.Permanent())
			}
		}
	})
}

// A nil Peers shares nothing, and is valid.
func TestNoPeers(t *testing.T) {
	var peers *reflector.Peers
	peers.ResourceAppeared(schema.GroupVersionResource{Resource: "things"})
	synctest.Test(t, func(t *testing.T) {
		s := &shared{}
		defer s.start(t, peers, "things")()
		s.fail("", syscall.ECONNREFUSED)
		time.Sleep(time.Minute)
		s.fail("", nil)
		time.Sleep(time.Minute)
		if opened, _ := s.since(time.Time{}); len(opened) != 1 {
			t.Errorf("opened: %v", opened)
		}
	})
}
