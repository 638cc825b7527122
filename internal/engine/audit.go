package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

const (
	// auditPage is how many objects an audit lists per page, and auditPause how long it waits
	// before the next page, which bounds the objects per second of all but large collections
	// regardless of the interval.
	auditPage, auditPause = 500, time.Second
	// longestAudit bounds the sum of the pauses; servers forget the version of a list after a few minutes.
	longestAudit = 2 * time.Minute
	// auditPageTimeout is how long one page may take.
	auditPageTimeout = 90 * time.Second
	// confirmAfter is the delay before a difference is checked again; only then does it count.
	confirmAfter = 5 * time.Second
)

// AuditStatus has the results of the audits of one list and watch.
type AuditStatus struct {
	// Completed counts the audits that compared everything, Inconclusive those that could not; Err is the last reason.
	Completed, Inconclusive uint64
	// Differences counts the objects found to differ, and Heals the lists requested because of that.
	Differences, Heals uint64
	// LastCompleted is when an audit last compared everything; zero if none has.
	LastCompleted time.Time
	Err           error
}

// DivergedError says that the store was found to differ from the server, which should never happen.
type DivergedError struct {
	// Resource is the informer's name; Namespace is the namespace, if it has several.
	Resource, Namespace string
	// ResourceVersion is the version at which both were compared.
	ResourceVersion string
	// Missing counts objects that only the server has, Extra those that only the store has, and
	// Outdated those that differ.
	Missing, Extra, Outdated int
	// First names some of them.
	First []object.Key
}

// Error returns one line.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("an audit found that the store differs from the server at resource version %s: %d objects are missing, %d should not be there, %d are of another version, such as %v",
		e.ResourceVersion, e.Missing, e.Extra, e.Outdated, e.First)
}

// mostNamed is how many objects a DivergedError names.
const mostNamed = 10

func (e *DivergedError) add(count *int, key object.Key) {
	*count++
	if len(e.First) < mostNamed {
		e.First = append(e.First, key)
	}
}

func (e *DivergedError) objects() int { return e.Missing + e.Extra + e.Outdated }

// auditor compares the store with the server periodically. It takes a snapshot, and lists what the
// server had at exactly the snapshot's version, so that changes in flight do not matter. Objects
// that differ twice are reported, and corrected by a list that reuses nothing.
type auditor[T object.Object] struct {
	part *part[T]

	mu     sync.Mutex // guards status
	status AuditStatus
}

// start runs audits until the part ends, if they are enabled. wait waits for that.
func (a *auditor[T]) start() (wait func()) {
	every := a.part.inf.cfg.Audit
	if every <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.part.caller.Join()()                                                    // the logger and the source are the user's
		for sleep(a.part.ctx, every-time.Duration(rand.Float64()*0.1*float64(every))) { // jitter, so that informers do not audit together
			a.audit()
		}
	}()
	return func() { <-done }
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// audit compares everything once, and again if there is a difference.
func (a *auditor[T]) audit() {
	found, err := a.compare()
	if err == nil && found.objects() > 0 && sleep(a.part.ctx, confirmAfter) {
		found, err = a.compare()
	}
	if a.part.ctx.Err() != nil {
		return
	}
	a.note(found, err)
	switch {
	case err != nil:
		a.part.inf.log.Log(slog.LevelDebug, "an audit could not compare the store with the server", "namespace", a.part.namespace, "err", err)
	case found.objects() > 0:
		a.part.forceRelist(found)
	}
}

func (a *auditor[T]) note(found *DivergedError, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Err = err
	if err != nil {
		a.status.Inconclusive++
		return
	}
	a.status.Completed++
	a.status.LastCompleted = time.Now()
	if n := found.objects(); n > 0 {
		a.status.Differences += uint64(n)
		a.status.Heals++
	}
}

func (a *auditor[T]) snapshot() AuditStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Reasons why an audit cannot compare.
var (
	errNotWatching  = errors.New("the watch is not open")
	errNoVersion    = errors.New("the store has no resource version to compare at")
	errOtherVersion = errors.New("the server did not list the version that was asked for")
	errManySkipped  = errors.New("too many objects cannot be decoded to leave them out")
)

// compare finds the differences between the store and the server at the store's version. A panic in
// the source becomes an error.
func (a *auditor[T]) compare() (found *DivergedError, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the source panicked: %v", reason)
		}
	}()
	p := a.part
	st := p.reflectorStatus()
	snap := p.inf.store.Snapshot()
	version := snap.ResourceVersionIn(p.namespace)
	switch {
	case st.SyncedSince.IsZero() || st.Phase != reflector.Watching || st.Problem != nil:
		return nil, errNotWatching
	case !object.OlderResourceVersion("0", version):
		return nil, errNoVersion
	case st.SkippedTotal > len(st.Skipped):
		return nil, errManySkipped
	}
	c := newComparison(snap, p.namespace, st.Skipped)
	if p.transform.isSet() {
		c.leftOut = p.transform.leftOut.Contains()
	}
	c.found = &DivergedError{Resource: p.inf.cfg.Name, Namespace: p.namespace, ResourceVersion: version}
	if err := a.list(c, version); err != nil {
		return nil, err
	}
	c.finish()
	return c.found, nil
}

// list reads what the server had at the version, page by page.
func (a *auditor[T]) list(c *comparison[T], version string) error {
	opts := source.ListOptions[T]{ResourceVersion: version, ResourceVersionMatch: string(metav1.ResourceVersionMatchExact), Limit: auditPage}
	pause, tokens := pauseBetweenPages(c.held.Len()), map[string]bool{}
	for {
		result, err := a.page(opts, c)
		switch {
		case err != nil:
			return err
		case result.ResourceVersion != version:
			return errOtherVersion
		case result.Continue == "":
			return nil
		case tokens[result.Continue]:
			return errors.New("the server repeats its continue tokens")
		}
		tokens[result.Continue] = true
		opts.ResourceVersion, opts.ResourceVersionMatch, opts.Continue = "", "", result.Continue
		if !sleep(a.part.ctx, pause) {
			return context.Cause(a.part.ctx)
		}
	}
}

// pauseBetweenPages is how long an audit of this many objects waits before the next page.
func pauseBetweenPages(objects int) time.Duration {
	return min(auditPause, longestAudit/time.Duration(1+objects/auditPage))
}

func (a *auditor[T]) page(opts source.ListOptions[T], c *comparison[T]) (source.ListResult, error) {
	ctx, cancel := context.WithTimeout(a.part.ctx, auditPageTimeout)
	defer cancel()
	return listMetadata(ctx, a.part.source, opts, func(o metav1.Object) error {
		c.listed(o)
		return nil
	})
}

// comparison is the state of one audit.
type comparison[T object.Object] struct {
	snap    *store.Snapshot[T]
	held    object.Collection[T]  // of the part
	skipped map[object.Key]bool   // not compared
	leftOut func(object.Key) bool // by the transform, or maybe; nil without one
	seen    map[uint64]struct{}   // hashes of the keys that the server has
	found   *DivergedError
}

var auditSeed = maphash.MakeSeed()

func newComparison[T object.Object](snap *store.Snapshot[T], namespace string, skipped []reflector.Skipped) *comparison[T] {
	held := snap.In(namespace)
	c := &comparison[T]{snap: snap, held: held, skipped: map[object.Key]bool{}, seen: make(map[uint64]struct{}, held.Len())}
	for _, s := range skipped {
		c.skipped[s.Key] = true
	}
	return c
}

// listed compares an object that the server has.
func (c *comparison[T]) listed(o metav1.Object) {
	key := object.KeyOf(o)
	c.seen[maphash.Comparable(auditSeed, key)] = struct{}{}
	if c.skipped[key] {
		return
	}
	held, ok := c.snap.Held(key)
	switch {
	case !ok && c.leftOut != nil && c.leftOut(key):
	case !ok:
		c.found.add(&c.found.Missing, key)
	case held.UID() != o.GetUID() || held.ResourceVersion() != o.GetResourceVersion():
		c.found.add(&c.found.Outdated, key)
	}
}

// finish finds objects that the server does not have.
func (c *comparison[T]) finish() {
	for held := range store.HeldOf(c.held) {
		key := held.Key()
		if _, ok := c.seen[maphash.Comparable(auditSeed, key)]; !ok && !c.skipped[key] {
			c.found.add(&c.found.Extra, key)
		}
	}
}
