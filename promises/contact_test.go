package promises_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// slowCluster is a server behind a proxy that holds back the responses to watches. Its state at
// version n is one pod of that version.
type slowCluster struct {
	// headers and firstByte delay each new watch: its response, and the first of what it brings.
	// After that, changes pass through at once.
	headers, firstByte time.Duration
	bookmarks          bool // sent once a minute

	mu      sync.Mutex
	version int
	written []time.Time   // when each version was written
	changed chan struct{} // closed with the next change
	slow    bool          // the delays apply
	shown   []sight       // what checks have shown
	lists   int           // all but checks
	watches int
}

// sight is what a check has shown.
type sight struct {
	version int
	at      time.Time
}

func newSlowCluster() *slowCluster {
	return &slowCluster{version: 1, written: []time.Time{time.Now(), time.Now()}, changed: make(chan struct{})}
}

func (c *slowCluster) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.written = append(c.written, time.Now())
	close(c.changed)
	c.changed = make(chan struct{})
}

func slowPod(version int) pod {
	p := newPod("a", "p")
	p.UID, p.ResourceVersion = "uid", strconv.Itoa(version)
	return p
}

func (c *slowCluster) List(_ context.Context, opts source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	c.mu.Lock()
	version := c.version
	if opts.Limit == 1 {
		c.shown = append(c.shown, sight{version, time.Now()})
	} else {
		c.lists++
	}
	c.mu.Unlock()
	return source.ListResult{ResourceVersion: strconv.Itoa(version)}, each(slowPod(version))
}

func (c *slowCluster) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if opts.SendInitialEvents {
		return nil, invalid("sendInitialEvents: forbidden")
	}
	c.watches++
	now := time.Now()
	w := &slowWatch{cluster: c, ctx: ctx, opened: now, end: now.Add(opts.Timeout), nextBookmark: now.Add(time.Minute)}
	w.at, _ = strconv.Atoi(opts.ResourceVersion)
	if !c.slow {
		return w, nil
	}
	w.silentUntil = now.Add(c.firstByte)
	c.mu.Unlock()
	defer c.mu.Lock()
	return w, pause(ctx, c.headers)
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type slowWatch struct {
	cluster                                *slowCluster
	ctx                                    context.Context
	at                                     int
	opened, end, silentUntil, nextBookmark time.Time
}

func (w *slowWatch) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	if err := pause(w.ctx, time.Until(w.silentUntil)); err != nil {
		return buf, err
	}
	for {
		c := w.cluster
		c.mu.Lock()
		version, changed := c.version, c.changed
		c.mu.Unlock()
		now := time.Now()
		switch {
		case w.at < version:
			w.at++
			o := slowPod(w.at)
			return append(buf, source.Event[pod]{Type: source.Modified, Object: o, ResourceVersion: o.ResourceVersion}), nil
		case !now.Before(w.end):
			return buf, io.EOF
		case c.bookmarks && !now.Before(w.nextBookmark):
			w.nextBookmark = now.Add(time.Minute)
			return append(buf, source.Event[pod]{Type: source.Bookmark, ResourceVersion: strconv.Itoa(version)}), nil
		}
		until := w.end
		if c.bookmarks && w.nextBookmark.Before(until) {
			until = w.nextBookmark
		}
		select {
		case <-changed:
		case <-time.After(time.Until(until)):
		case <-w.ctx.Done():
			return buf, w.ctx.Err()
		}
	}
}

func (w *slowWatch) Close() error { return nil }

// behind returns for how long something has been missing in the store at a version, and for how
// long it has been behind what a check showed.
func (c *slowCluster) behind(held int) (missing, shown time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held < c.version {
		missing = time.Since(c.written[held+1])
	}
	for _, s := range c.shown {
		if s.version > held {
			return missing, time.Since(s.at)
		}
	}
	return missing, 0
}

const neverArrives = 1000 * time.Hour

// TestContactIsNotProgress delays what new watches bring. The store is never behind for longer than
// by one delay, as with client-go, and says so when it is behind what a check has shown for
// StaleAfter.
func TestContactIsNotProgress(t *testing.T) {
	var delays []time.Duration
	for d := time.Second; d <= 10*time.Minute; d += max(time.Second, d/6) {
		delays = append(delays, d)
	}
	delays = append(delays, 89*time.Second, 91*time.Second, 149*time.Second, 151*time.Second, 10*time.Minute, neverArrives)
	if testing.Short() {
		delays = []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, neverArrives}
	}
	for _, headers := range []bool{false, true} {
		for _, bookmarks := range []bool{true, false} {
			for _, every := range []time.Duration{5 * time.Second, 4 * time.Minute} {
				t.Run(fmt.Sprintf("headers %v, bookmarks %v, a change every %v", headers, bookmarks, every), func(t *testing.T) {
					for _, delay := range delays {
						synctest.Test(t, func(t *testing.T) { contactIsNotProgress(t, delay, headers, bookmarks, every) })
					}
				})
			}
		}
	}
}

func contactIsNotProgress(t *testing.T, delay time.Duration, headers, bookmarks bool, every time.Duration) {
	const staleAfter = 3 * time.Minute
	c := newSlowCluster()
	c.bookmarks = bookmarks
	if headers {
		c.headers = delay
	} else {
		c.firstByte = delay
	}
	inf, err := tidings.NewInformer[pod](c, tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{StaleAfter: staleAfter}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := inf.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer inf.Stop(t.Context())
	var longest time.Duration
	begin, nextWrite := time.Now(), time.Now().Add(every)
	lists := 0
	for ; time.Since(begin) < 2*time.Hour; time.Sleep(time.Second) {
		synctest.Wait()
		if !time.Now().Before(nextWrite) {
			nextWrite = nextWrite.Add(every)
			c.write()
			synctest.Wait()
		}
		if time.Since(begin) == 20*time.Minute { // bookmarks are known by now
			c.mu.Lock()
			c.slow, lists = true, c.lists
			c.mu.Unlock()
		}
		p, _ := inf.Get(object.Key{Namespace: "a", Name: "p"})
		held, _ := strconv.Atoi(p.ResourceVersion)
		missing, shown := c.behind(held)
		longest = max(longest, missing)
		fresh := inf.Fresh()
		if shown > staleAfter && fresh == nil {
			t.Fatalf("delay %v: after %v, fresh although behind what a check showed %v ago", delay, time.Since(begin), shown)
		}
		if missing > staleAfter+10*time.Minute && fresh == nil {
			t.Fatalf("delay %v: after %v, fresh although behind for %v", delay, time.Since(begin), missing)
		}
	}
	// Without any sign of life, a watch is abandoned some time after its timeout, which is at most ten minutes.
	if most := min(delay, 12*time.Minute) + 3*time.Second; longest > most {
		t.Errorf("delay %v: behind for %v", delay, longest)
	}
	if lists = c.lists - lists; lists > 20 {
		t.Errorf("delay %v: %d lists in 100 minutes", delay, lists)
	}
	if 5*time.Minute > delay && lists > 4 {
		t.Errorf("delay %v: %d lists in 100 minutes, although a watch brings something after the delay", delay, lists)
	}
}

// TestStaleSaysBehindWhat names the version that is missing.
func TestStaleSaysBehindWhat(t *testing.T) {
	err := &tidings.StaleError{Resource: "pods", Age: time.Second, Version: "5", ServerVersion: "9", BehindFor: 200 * time.Second}
	for _, part := range []string{"pods: stale: ", "resource version 5", "server has had 9 for 3m20s"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: no %q", err, part)
		}
	}
}
