package reflector_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// A panic in something that the reflector calls does not end the process. Run continues after a wait.
func TestPanics(t *testing.T) {
	const none = "none"
	tests := []struct {
		where  string
		reason reflector.Reason // of what is reported
	}{
		{"List", reflector.Protocol}, {"Watch", reflector.Protocol}, {"Next", reflector.Protocol}, {"Close", none}, {"Previous", reflector.Protocol},
		{"Replace", reflector.Panicked}, {"Add", reflector.Panicked}, {"OnError", none}, {"Logger", none}, {"Error", reflector.Panicked},
	}
	for _, tt := range tests {
		t.Run(tt.where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				p := &panicking{where: tt.where, sink: newReplica(t), server: newQuietModel()}
				opts := reflector.Options[thing]{Source: p, Sink: p, Previous: p.previous, OnError: p.onError, Seed: 1, DisableWatchList: tt.where == "List",
					Logger: slog.New(panickingHandler{p, slog.NewTextHandler(&log, nil)})}
				r, err := reflector.New(opts)
				if err != nil {
					t.Fatal(err)
				}
				stop := run(t, r)
				for range 40 {
					time.Sleep(5 * time.Second)
					p.server.write()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				stop()
				status := r.Status()
				if p.panics == 0 || status.Panics != uint64(p.panics) {
					t.Errorf("%d panics, %d counted", p.panics, status.Panics)
				}
				if p.sink.version != status.ResourceVersion || number(p.sink.version) != len(p.server.changes) {
					t.Errorf("sink at %s, status at %s, server at %d", p.sink.version, status.ResourceVersion, len(p.server.changes))
				}
				if tt.reason == none {
					return
				}
				if len(p.errs) == 0 || p.errs[0].Reason != tt.reason || p.errs[0].RetryAt.Sub(p.errs[0].When) < 800*time.Millisecond {
					t.Errorf("reported %v", p.errs)
				}
				if !strings.Contains(log.String(), "panic_test.go") {
					t.Errorf("the log has no stack:\n%s", log.String())
				}
			})
		})
	}
}

// panicking panics the first three times it is called from a given place.
type panicking struct {
	where  string
	panics int
	sink   *replica
	server *model
	errs   []*reflector.Error
}

func newQuietModel() *model {
	m := newModel(seeded(1))
	m.trouble, m.noWatchList, m.neverEnds = false, nil, false
	return m
}

func (p *panicking) at(where string) {
	if p.where == where && p.panics < 3 {
		p.panics++
		panic("in " + where)
	}
}

func (p *panicking) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	p.at("List")
	return p.server.List(ctx, opts, each)
}

func (p *panicking) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	p.at("Watch")
	if opts.SendInitialEvents && opts.Previous != nil {
		opts.Previous(object.Key{Name: "o1"})
	}
	if p.where == "Error" && p.panics < 1 {
		return nil, panickingError{p}
	}
	stream, err := p.server.Watch(ctx, opts)
	return &panickingStream{stream, p}, err
}

func (p *panicking) previous(key object.Key) (thing, bool) {
	p.at("Previous")
	return p.sink.previous(key)
}

func (p *panicking) Replace(objects object.Collection[thing], version string) {
	p.at("Replace")
	p.sink.Replace(objects, version)
}

func (p *panicking) Add(deltas []object.Delta[thing], version string) {
	p.at("Add")
	p.sink.Add(deltas, version)
}

func (p *panicking) onError(e *reflector.Error) {
	p.errs = append(p.errs, e)
	p.at("OnError")
}

// panickingStream fails after every seventh change, so that there are errors to report and streams to close.
type panickingStream struct {
	source.Stream[thing]
	*panicking
}

func (s *panickingStream) Next(buf events) (events, error) {
	s.at("Next")
	buf, err := s.Stream.Next(buf)
	if err == nil && s.server.version()%7 == 0 {
		err = errInternal
	}
	return buf, err
}

func (s *panickingStream) Close() error {
	s.at("Close")
	return s.Stream.Close()
}

type panickingHandler struct {
	*panicking
	slog.Handler
}

func (h panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h panickingHandler) Handle(ctx context.Context, r slog.Record) error {
	h.at("Logger")
	return h.Handler.Handle(ctx, r)
}

func (h panickingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return panickingHandler{h.panicking, h.Handler.WithAttrs(attrs)}
}

// panickingError is an error whose Error method panics, as with a nil pointer to a type whose Error reads fields.
type panickingError struct{ *panicking }

func (e panickingError) Error() string {
	e.at("Error")
	return "none"
}
