package serve

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tidings/tidings/serve/internal/callers"
	"github.com/tidings/tidings/serve/internal/failure"
	"github.com/tidings/tidings/serve/internal/replica"
)

// patience is how long the answer to a forwarded request is waited for. Either it begins, or the wait ends.
type patience struct{ state atomic.Int32 }

const (
	waiting int32 = iota
	answering
	over
)

// answered notes that the answer begins. It returns replica.ErrNotProved after the wait has ended. p may be nil.
func (p *patience) answered() error {
	if p == nil || p.state.CompareAndSwap(waiting, answering) {
		return nil
	}
	return replica.ErrNotProved
}

// end ends the wait, and reports whether it still went on.
func (p *patience) end() bool { return p.state.CompareAndSwap(waiting, over) }

// isOver reports whether the wait has ended without an answer. p may be nil.
func (p *patience) isOver() bool { return p != nil && p.state.Load() == over }

// forward forwards a request. The answer to a get or list of a resource that is served is waited for only as long as
// the API server shows that it can be reached: it may take its time for a large list.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, c callers.Caller) {
	s.counts.forwarded.Add(1)
	found := s.readOf(info)
	if found == nil {
		s.forwarder.forward(w, r, c)
		return
	}
	p := &patience{}
	ctx, cancel := context.WithCancel(withPatience(r.Context(), p))
	var asking sync.WaitGroup
	asking.Go(func() {
		if p.isSilent(ctx, found) {
			cancel()
		}
	})
	s.forwarder.forward(w, r.WithContext(ctx), c)
	cancel()
	asking.Wait()
}

// readOf returns the resource that a request gets or lists, if it is one that is served; nil otherwise.
func (s *Server) readOf(info *request.RequestInfo) *replica.Found {
	if info.Verb != "get" && info.Verb != "list" || info.Subresource != "" {
		return nil
	}
	if res := s.find(info); res != nil {
		return res.Found()
	}
	return nil
}

// isSilent asks the API server for its version while its answer is waited for. Once it cannot be reached, isSilent ends
// the wait and returns true.
func (p *patience) isSilent(ctx context.Context, found *replica.Found) bool {
	tick := time.NewTicker(replica.AskPatience)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if p.state.Load() != waiting {
				return false
			}
			if err := found.Ask(ctx); failure.Unreachable(err) {
				return p.end()
			}
		case <-ctx.Done():
			return false
		}
	}
}
