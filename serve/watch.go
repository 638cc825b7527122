package serve

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/serve/internal/callers"
	"github.com/tidings/tidings/serve/internal/replica"
)

// minWatchTimeout is the least time that a watch lasts whose client names none; an API server uses up to twice as much.
const minWatchTimeout = 30 * time.Minute

func (x *exchange) watch() error {
	selection, err := protocol.NewSelection(&x.found.ResourceType, x.target, x.query, true, false)
	if err != nil {
		return err
	}
	if !x.canSelect(selection) {
		return replica.ErrForward
	}
	if o := selection.Options; o.ResourceVersion == "0" && o.SendInitialEvents == nil {
		o.SendInitialEvents = new(true) // as an API server takes it, which says where they end
	}
	// Nothing is sent once the right is gone, not even what is in the journal already: send checks this context.
	ctx, end := context.WithCancelCause(x.r.Context())
	var asking sync.WaitGroup
	asking.Go(func() { x.keepAsking(ctx, end) })
	defer asking.Wait()
	defer end(nil)
	options := protocol.WatchOptions{
		Timeout:          minWatchTimeout + time.Duration(rand.Int64N(int64(minWatchTimeout))),
		BookmarkInterval: x.server.options.BookmarkInterval, Shutdown: x.server.shutdown,
	}
	r := x.found
	v, leave := x.view.Of(selection)
	defer leave()
	sent := x.server.metrics.events.WithLabelValues(r.Group, r.Version, r.Resource)
	s := &watchSink{exchange: x, ctx: ctx, epoch: v.Epoch(), sent: sent}
	open := x.server.metrics.longRunning.WithLabelValues("WATCH", r.Group, r.Version, r.Resource)
	open.Inc()
	defer open.Dec()
	defer x.server.watches.add(s)()
	err = protocol.Watch(ctx, v, selection, options, s)
	if errors.Is(context.Cause(ctx), errNotAllowed) && x.started {
		return s.End() // the watch ends cleanly, and its client learns why when it comes again
	}
	if err != nil && errors.Is(err, protocol.ErrLossy) && x.started {
		x.resource.SetLossy()
		return s.End() // it comes again, and is forwarded
	}
	return err
}

// errNotAllowed ends the watch of a user who has lost the right to it.
var errNotAllowed = errors.New("no longer allowed")

// askInterval is how often it is asked whether a watch is still allowed, at least. Answers may be callers.CacheTTL old, and
// each of the two takes up to callers.ReviewTimeout to come: a watch goes on for a minute at most after the right to it is
// gone.
const askInterval = time.Minute - callers.CacheTTL - 2*callers.ReviewTimeout

// keepAsking ends the watch once its caller has lost the right to it, until ctx ends.
func (x *exchange) keepAsking(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(min(x.server.options.BookmarkInterval, askInterval))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !x.server.stillAllowed(x.r.WithContext(ctx)) && ctx.Err() == nil {
			end(errNotAllowed)
			x.server.counts.revoked.Add(1)
			return
		}
	}
}

// watchSink sends the events of a watch.
type watchSink struct {
	*exchange
	ctx      context.Context // of the watch; nothing is sent after its end
	epoch    int
	out      *bufio.Writer
	flushed  bool // whether all that has been sent is on its way
	sent     prometheus.Counter
	position atomic.Uint64 // the version of what was sent last
	writing  atomic.Int64  // when the write in progress began, in Unix nanoseconds; 0 without one
	stalled  atomic.Bool   // whether that write was broken off because it took too long
}

// Start implements protocol.Sink.
func (s *watchSink) Start() error {
	s.start(true)
	s.out = bufio.NewWriterSize(s.w, 4<<10)
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Time{}) // a watch may be silent; not all writers have one
	s.beginWriting()
	s.w.WriteHeader(http.StatusOK)
	return s.endWriting(http.NewResponseController(s.w).Flush())
}

// Send implements protocol.Sink.
func (s *watchSink) Send(e protocol.Event) error {
	if s.ctx.Err() != nil {
		return protocol.ErrCut
	}
	data, err := s.encode(e)
	if err != nil {
		return err
	}
	s.flushed = false
	s.beginWriting()
	if _, err = s.out.Write(data); err == nil {
		s.sent.Inc()
		if e.Version > 0 {
			s.position.Store(e.Version)
		}
	}
	return s.endWriting(err)
}

// encode encodes an event. Events of changes are encoded once for all watches.
func (s *watchSink) encode(e protocol.Event) ([]byte, error) {
	if e.Version == 0 || e.Type == watch.Bookmark {
		return s.encoding.Event(e.Type, e.Object)
	}
	key := replica.EventKey{
		Epoch: s.epoch, Version: e.Version, Kind: e.Type, Media: s.encoding.Media, Partial: s.encoding.Partial,
	}
	return s.found.Collection.Events.Get(key, func() ([]byte, error) { return s.encoding.Event(e.Type, e.Object) })
}

// Flush implements protocol.Sink.
func (s *watchSink) Flush() error {
	if s.flushed {
		return nil
	}
	s.flushed = true
	s.beginWriting()
	err := s.out.Flush()
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	return s.endWriting(err)
}

// End implements protocol.Sink.
func (s *watchSink) End() error { return s.Flush() }

// beginWriting starts the time that the client has to read what is written.
func (s *watchSink) beginWriting() { s.writing.Store(time.Now().UnixNano()) }

// endWriting turns an error of the connection into ErrCut.
func (s *watchSink) endWriting(err error) error {
	s.writing.Store(0)
	if err == nil {
		return nil
	}
	return protocol.ErrCut
}

// cutIfStalled breaks off a write that began before a time: its client does not read.
func (s *watchSink) cutIfStalled(before time.Time) {
	began := s.writing.Load()
	if began == 0 || began > before.UnixNano() || s.stalled.Swap(true) {
		return
	}
	s.server.counts.cut.Add(1)
	s.server.options.Logger.InfoContext(s.r.Context(), "watcher does not read", "resource", s.resource.Name,
		"agent", s.r.UserAgent())
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Unix(1, 0)) // not all writers have one
}
