package reflector_test

import (
	"context"
	"io"
	"maps"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// proxy is a source in front of another one. It cuts all watches at once whenever a period is over, and measures how
// long no watch was open that had delivered all current objects.
type proxy struct {
	source.ListerWatcher[thing]
	period time.Duration
	ending error
	start  time.Time

	mu     sync.Mutex
	open   map[*proxyStream]bool
	closed time.Time // when the last one was closed
	deaf   time.Duration
	opened int
}

func (p *proxy) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) > 0
}

// cut ends all watches with err; nil ends none.
func (p *proxy) cut(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.open {
		if err != nil {
			s.cancel(cutError{err})
		}
	}
}

// cutError is the cause with which the proxy ends watches.
type cutError struct{ error }

func (p *proxy) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := p.ListerWatcher.Watch(ctx, opts)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 {
		p.deaf += time.Since(p.closed)
		p.open = map[*proxyStream]bool{}
	}
	p.opened++
	s := &proxyStream{Stream: stream, proxy: p, ctx: ctx, cancel: cancel}
	s.timer = time.AfterFunc(p.period-p.passed()%p.period, func() { cancel(cutError{p.ending}) })
	p.open[s] = true
	return s, nil
}

func (p *proxy) passed() time.Duration { return time.Since(p.start) }

type proxyStream struct {
	source.Stream[thing]
	proxy  *proxy
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (s *proxyStream) Next(buf events) (events, error) {
	buf, err := s.Stream.Next(buf)
	if err != nil {
		s.ended()
		if cut, ok := context.Cause(s.ctx).(cutError); ok {
			err = cut.error
		}
	}
	return buf, err
}

func (s *proxyStream) Close() error {
	s.ended()
	s.timer.Stop()
	s.cancel(nil)
	return s.Stream.Close()
}

func (s *proxyStream) ended() {
	p := s.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[s] {
		delete(p.open, s)
		p.closed = time.Now()
	}
}

// TestCutEveryMinute uses a proxy with an idle timeout, for two hours.
func TestCutEveryMinute(t *testing.T) {
	for name, ending := range map[string]error{"closed": io.EOF, "cut": io.ErrUnexpectedEOF, "reset": syscall.ECONNRESET, "500": errInternal} {
		for _, busy := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " quiet", true: " busy"}[busy], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cutEveryMinute(t, ending, busy) })
			})
		}
	}
}

func cutEveryMinute(t *testing.T, ending error, busy bool) {
	const duration = 2 * time.Hour
	server := newQuietModel()
	p := &proxy{ListerWatcher: server, period: time.Minute, ending: ending, start: time.Now(), closed: time.Now()}
	r, err := reflector.New(reflector.Options[thing]{Source: p, Sink: newReplica(t), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, r)
	for p.passed() < duration {
		time.Sleep(4 * time.Second)
		if busy {
			server.write()
		}
	}
	stop()
	if p.deaf > duration/100 {
		t.Errorf("deaf for %v of %v", p.deaf, duration)
	}
	if st := r.Status(); st.Relists > 0 || p.opened < 119 || p.opened > 125 {
		t.Errorf("%d watches, %d relists", p.opened, st.Relists)
	}
}

// outages is a source in front of another one that alternately fails in one way for some time and works for some time.
type outages struct {
	*proxy
	mu  sync.Mutex
	err error // now; nil if all is well
}

func (o *outages) fault() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outages) begin(err error) {
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	o.cut(err)
}

func (o *outages) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	if err := o.fault(); err != nil {
		return source.ListResult{}, err
	}
	return o.proxy.List(ctx, opts, each)
}

func (o *outages) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	if err := o.fault(); err != nil {
		return nil, err
	}
	return o.proxy.Watch(ctx, opts)
}

// TestRandomFaults has short outages of all kinds, one after the other. In every quiet period of
// five seconds the watch has to recover, except for a few that follow a series of outages, and in
// the longer one at the end the sink has to match the server.
func TestRandomFaults(t *testing.T) {
	faults := []error{syscall.ECONNREFUSED, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, errInternal, errExpired,
		apierrors.NewTooManyRequests("busy", 1), apierrors.NewServiceUnavailable("starting")}
	seeds(t, 20, func(t *testing.T, seed uint64) {
		random := seeded(seed)
		server := newModel(seeded(seed + 1))
		server.trouble, server.neverEnds = false, false
		o := &outages{proxy: &proxy{ListerWatcher: server, period: 24 * time.Hour, start: time.Now(), closed: time.Now()}}
		sink := newReplica(t)
		r, err := reflector.New(reflector.Options[thing]{Source: o, Sink: sink, Previous: sink.previous, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, r)
		times, back := 0, 0
		for start := time.Now(); time.Since(start) < 2*time.Hour; {
			quiet := time.Duration(random.Int64N(int64(20 * time.Second)))
			time.Sleep(quiet)
			server.write()
			fault := faults[random.IntN(len(faults))]
			if quiet >= 5*time.Second {
				times++
				if o.isOpen() {
					back++
				}
			}
			o.begin(fault)
			time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
			o.begin(nil)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		stop()
		if back < times*95/100 {
			t.Errorf("came back in %d of %d quiet times", back, times)
		}
		if want, got := server.state(len(server.changes)), sink.states(); !maps.Equal(got, want) {
			t.Errorf("sink holds %v, server %v", got, want)
		}
		checkRate(t, server.requests)
	})
}
