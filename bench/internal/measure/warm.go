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

// counter counts what comes over connections.
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

// awaitSync waits until all handlers know all objects. An engine that starts from what was saved has synced only when the server has
// confirmed that.
func (r *run) awaitSync(ctx context.Context) error {
	start := time.Now()
	if err := r.observer.WaitInitial(ctx); err != nil || !r.Resumed {
		return err
	}
	r.out["told time"] = time.Since(start).Seconds()
	e, ok := r.running.(engine.Resuming)
	if !ok {
		return errors.New("the engine saves nothing")
	}
	loaded, err := e.WaitForSync(ctx)
	if err == nil && loaded != r.plan.Objects {
		err = fmt.Errorf("%d objects of %d were saved", loaded, r.plan.Objects)
	}
	return err
}
