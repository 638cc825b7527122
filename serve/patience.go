package serve

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// patience is how long the answer to a forwarded request is waited for. Either it begins, or the wait ends.
type patience struct{ state atomic.Int32 }

const (
	waiting int32 = iota
	answering
	over
)

// answered notes that the answer begins. It returns errNotProved after the wait has ended. p may be nil.
func (p *patience) answered() error {
	if p == nil || p.state.CompareAndSwap(waiting, answering) {
		return nil
	}
	return errNotProved
}

// end ends the wait, and reports whether it still went on.
func (p *patience) end() bool { return p.state.CompareAndSwap(waiting, over) }

// isOver reports whether the wait has ended without an answer. p may be nil.
func (p *patience) isOver() bool { return p != nil && p.state.Load() == over }

// forward forwards a request. The answer to a get or list of a resource that is served is waited for only as long as
// the API server shows that it can be reached: it may take its time for a large list.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, c caller) {
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
		if found.fresh.silent(ctx, p) {
			cancel()
		}
	})
	s.forwarder.forward(w, r.WithContext(ctx), c)
	cancel()
	asking.Wait()
}

// readOf returns the resource that a request gets or lists, if it is one that is served; nil otherwise.
func (s *Server) readOf(info *request.RequestInfo) *foundResource {
	if info.Verb != "get" && info.Verb != "list" || info.Subresource != "" {
		return nil
	}
	if res := s.find(info); res != nil {
		return res.found.Load()
	}
	return nil
}

// silent asks the API server for its version while its answer is waited for. Once it cannot be reached, silent ends the
// wait and returns true.
func (f *freshness) silent(ctx context.Context, p *patience) bool {
	tick := time.NewTicker(askPatience)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if p.state.Load() != waiting {
				return false
			}
			if _, err := f.ask(ctx); unreachable(err) {
				return p.end()
			}
		case <-ctx.Done():
			return false
		}
	}
}
