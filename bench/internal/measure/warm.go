package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
)

// counter counts the bytes received on connections.
type counter struct{ read atomic.Int64 }

func (c *counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	return countedConn{conn, c}, err
}

type countedConn struct {
	net.Conn
	counter *counter
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counter.read.Add(int64(n))
	return n, err
}

// awaitSync waits until all handlers have received all objects and the informers have synced.
func (r *run) awaitSync(ctx context.Context) error {
	if r.Resumed {
		return r.awaitResumed(ctx)
	}
	return r.awaitInformers(ctx)
}

func (r *run) awaitInformers(ctx context.Context) error {
	err := r.observer.WaitInitial(ctx)
	if e, ok := r.running.(engine.Streaming); ok && err == nil {
		err = e.WaitForSync(ctx)
	}
	return err
}

// servedPoll is the polling interval during a start from saved objects.
const servedPoll = time.Millisecond

// awaitResumed waits until an engine that starts from saved objects serves them, has notified its
// handlers, and knows that the server has nothing newer.
func (r *run) awaitResumed(ctx context.Context) error {
	e, ok := r.running.(engine.Resuming)
	if !ok {
		return errors.New("the engine saves nothing")
	}
	start := time.Now()
	for ticks := time.NewTicker(servedPoll); e.Len() < r.plan.Objects; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return fmt.Errorf("%d objects of %d after %v: %w", e.Len(), r.plan.Objects, time.Since(start), context.Cause(ctx))
		}
	}
	r.out["served time"] = time.Since(start).Seconds()
	if err := r.awaitInformers(ctx); err != nil {
		return err
	}
	loaded, err := e.Loaded()
	if err == nil && loaded != r.plan.Objects {
		err = fmt.Errorf("%d objects of %d were saved", loaded, r.plan.Objects)
	}
	return err
}
