package serve

import (
	"context"
	"sync"
	"time"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/source"
)

// freshness proves that a collection is as new as the API server: it asks the server for its version with a list of one object, and waits
// until the collection has reached that. One question answers all who asked before it was sent.
type freshness struct {
	ctx        context.Context // ends the questions
	asking     sync.WaitGroup
	collection *collection
	source     *source.HTTP[*source.Raw]

	mu      sync.Mutex // guards the fields below
	running *question
	next    *question // for those who ask while running has been sent already
}

// question is one question to the API server.
type question struct {
	done    chan struct{} // closed when the fields below are set
	version uint64
	err     error
}

const (
	// askPatience limits a question, and catchUpPatience how long the collection may take to reach the answer.
	askPatience     = 3 * time.Second
	catchUpPatience = 300 * time.Millisecond
)

func newFreshness(ctx context.Context, c *collection, s *source.HTTP[*source.Raw]) *freshness {
	return &freshness{ctx: ctx, collection: c, source: s}
}

// mostRecent implements protocol.Storage.MostRecent. errForward says that the collection has not caught up in time.
func (f *freshness) mostRecent(ctx context.Context) (uint64, error) {
	version, err := f.ask(ctx)
	if err != nil {
		return 0, errForward
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	for {
		now, changed := f.collection.now()
		if now >= version {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, errForward
		}
	}
}

// ask returns a version of the server that is no older than the call.
func (f *freshness) ask(ctx context.Context) (uint64, error) {
	f.mu.Lock()
	q := f.next
	if q == nil {
		q = &question{done: make(chan struct{})}
		if f.running == nil {
			f.running = q
			f.asking.Go(func() { f.send(q) })
		} else {
			f.next = q
		}
	}
	f.mu.Unlock()
	select {
	case <-q.done:
		return q.version, q.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// send sends a question, and then the one that has been asked meanwhile.
func (f *freshness) send(q *question) {
	for q != nil {
		q.version, q.err = f.list()
		close(q.done)
		f.mu.Lock()
		q = f.next
		f.running, f.next = q, nil
		f.mu.Unlock()
	}
}

func (f *freshness) list() (uint64, error) {
	ctx, cancel := context.WithTimeout(f.ctx, askPatience)
	defer cancel()
	result, err := f.source.List(ctx, source.ListOptions[*source.Raw]{Limit: 1}, func(*source.Raw) error { return nil })
	if err != nil {
		return 0, err
	}
	return protocol.ParseVersion(result.ResourceVersion)
}
