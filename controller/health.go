package controller

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidings/tidings/shards"
)

const (
	// staleLimit is how long a cache may be stale, or a mapper may run, before the process counts as unhealthy. It
	// is long because a restart does not help if the API server is unreachable.
	staleLimit = 10 * time.Minute
	// slowMapper is how long a mapper may run, as observed by the checks, before the controller counts as not ready.
	slowMapper = time.Minute
)

// Readyz returns nil, or what keeps the controller from seeing all changes: which of its caches are
// not in sync or are stale, and why; which mappers have been running for a minute, as observed by
// calls of Readyz and Healthz; for which objects a mapper panics; and whether Options.ShardBy has failed.
func (c *Controller) Readyz() error {
	var errs []error
	for _, s := range c.sourceList() {
		errs = append(errs, s.ready())
	}
	if s := c.sharding.Load(); s != nil {
		errs = append(errs, s.ready())
	}
	return c.wrap(errs)
}

// Healthz returns nil, or why a restart of the process may be needed: a cache has been stale or a
// mapper has been running for 10 minutes, as observed by calls of Healthz, or a reconcile is still
// running although its context ended StopTimeout ago.
func (c *Controller) Healthz() error {
	var errs []error
	for _, s := range c.sourceList() {
		errs = append(errs, s.healthy(staleLimit))
	}
	errs = append(errs, c.stuck())
	return c.wrap(errs)
}

func (c *Controller) wrap(errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("controller %s: %w", c.name, err)
	}
	return nil
}

// stuck returns an error if a reconcile ignores the end of its context.
func (c *Controller) stuck() error {
	if c.options.Timeout < 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, start := range c.busy {
		if took := time.Since(start); took > c.options.Timeout+c.options.StopTimeout {
			return fmt.Errorf("reconcile of %s has been running for %v, and its context ended after %v",
				key, took.Round(time.Second), c.options.Timeout)
		}
	}
	return nil
}

// Healthz returns nil, or why a restart of the process may be needed; see Controller.Healthz.
func (m *Manager) Healthz() error {
	var errs []error
	for _, c := range m.list() {
		errs = append(errs, c.Healthz())
	}
	return errors.Join(errs...)
}

// Readyz returns nil, or what keeps controllers from seeing all changes; see Controller.Readyz. A manager that
// is waiting to be elected is ready if its caches are. If replicas share the keys, it also reports what
// shards.Replica.Ready does.
func (m *Manager) Readyz() error {
	var errs []error
	if replica, ok := m.elector.(*shards.Replica); ok {
		errs = append(errs, replica.Ready())
	}
	for _, c := range m.list() {
		errs = append(errs, c.Readyz())
	}
	return errors.Join(errs...)
}

// Handler returns a handler that serves the checks at /healthz and /readyz: 200 and "ok", or 503
// and the reasons in plain text.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveCheck(m.Healthz))
	mux.HandleFunc("GET /readyz", serveCheck(m.Readyz))
	return mux
}

func serveCheck(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
