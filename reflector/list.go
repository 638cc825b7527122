package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// mostEmptyPages is how many pages in a row may be empty although others are to follow.
const mostEmptyPages = 16

var errNoProgress = errors.New("the list does not come to an end: the server keeps sending empty pages or the same continue token")

// behindError says that a list is older than what the sink holds.
type behindError struct{ got, seen string }

func (e behindError) Error() string {
	return fmt.Sprintf("the server's collection is at resource version %s, but %s has already been seen", e.got, e.seen)
}

// list is a collection that is being gathered, from pages or from the initial events of a watch.
type list[T object.Object] struct {
	items []T
	// version is that of the first page: a watch from there misses nothing.
	version string
	// token asks for the next page.
	token string
	// whole is set once the continue token has expired, to ask for everything at once.
	whole bool
	// empty counts empty pages in a row, tries the failures of the page that token asks for.
	empty, tries int
	// at finds the items by key. It is made when the first event comes that is not an Added.
	at map[object.Key]int
	// hint is how many objects the last whole list had.
	hint int
}

// restart forgets everything but the hint.
func (l *list[T]) restart() { *l = list[T]{hint: l.hint} }

// add appends an item. The first one makes room for all that are expected.
func (l *list[T]) add(item T) {
	if l.items == nil {
		l.items = make([]T, 0, l.hint+l.hint/16+16)
	}
	l.items = append(l.items, item)
}

// take hands over the items; the list is empty then.
func (l *list[T]) take() []T {
	items := l.items
	l.hint = len(items)
	l.restart()
	return items
}

// apply applies one initial event. Nearly all of them are Added and name each object once; but objects may
// change and go while they are being sent.
func (l *list[T]) apply(ev *source.Event[T]) {
	if ev.Type == source.Added && l.at == nil {
		l.add(ev.Object)
		return
	}
	if l.at == nil {
		l.at = make(map[object.Key]int, len(l.items))
		for i, item := range l.items {
			l.at[object.KeyOf(item)] = i
		}
	}
	key := object.KeyOf(ev.Object)
	i, held := l.at[key]
	switch {
	case ev.Type == source.Deleted && held:
		l.remove(key, i)
	case ev.Type == source.Deleted:
	case held:
		l.items[i] = ev.Object
	default:
		l.at[key] = len(l.items)
		l.add(ev.Object)
	}
}

// remove fills the gap with the last item.
func (l *list[T]) remove(key object.Key, i int) {
	end := len(l.items) - 1
	last := l.items[end]
	l.items[i] = last
	l.at[object.KeyOf(last)] = i
	delete(l.at, key)
	l.truncate(end)
}

// truncate drops the items from n on.
func (l *list[T]) truncate(n int) {
	clear(l.items[n:])
	l.items = l.items[:n]
}

// turn notes the answer to the request for one page that had brought n items.
func (l *list[T]) turn(n int, result source.ListResult) error {
	if l.version == "" {
		l.version = result.ResourceVersion
	}
	if n > 0 {
		l.empty = 0
	} else {
		l.empty++
	}
	if result.Continue != "" && (result.Continue == l.token || l.empty > mostEmptyPages) {
		return errNoProgress
	}
	l.token, l.tries = result.Continue, 0
	return nil
}

// listPage reads one page, which is the whole list where no limit is asked for.
func (r *Reflector[T]) listPage(ctx context.Context) {
	opts := r.listOptions()
	g := newGuard(ctx, r.opts.StallTimeout)
	defer g.stop()
	before := len(r.list.items)
	result, err := r.opts.Source.List(g.ctx, opts, func(item T) error {
		g.extend(r.opts.StallTimeout)
		r.list.add(item)
		r.status.gathered.Store(int64(len(r.list.items)))
		return nil
	})
	if err == nil {
		r.heard()
		err = r.list.turn(len(r.list.items)-before, result)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.list.truncate(before)
		r.pageFailed(g.explain(err), opts)
	case r.list.token == "":
		r.replace(r.list.version)
	}
}

// listOptions asks for the next page. A list that names a version has no limit: servers answer that from their
// cache, and a limit would send them to the database.
func (r *Reflector[T]) listOptions() source.ListOptions[T] {
	opts := source.ListOptions[T]{Known: r.known, Continue: r.list.token, Limit: r.opts.PageSize}
	if opts.Continue == "" && r.knowsVersion() {
		opts.ResourceVersion, opts.ResourceVersionMatch = r.last, string(metav1.ResourceVersionMatchNotOlderThan)
		opts.Limit = 0
	}
	if r.list.whole {
		opts.Limit = 0
	}
	return opts
}

// knowsVersion tells whether the next list should ask for what is not older than last.
func (r *Reflector[T]) knowsVersion() bool { return !r.mostRecent && !unset(r.last) }

// unset tells whether a watch or list from version begins at an unspecified point.
func unset(version string) bool { return version == "" || version == "0" }

func (r *Reflector[T]) pageFailed(err error, opts source.ListOptions[T]) {
	reason := reasonOf(err)
	switch {
	case reason == Expired && opts.Continue != "" && !r.list.whole:
		r.list.restart()
		r.list.whole = true
	case r.askForMostRecent(reason):
		r.list.restart()
	case opts.Continue != "" && reason.transient() && r.list.tries < triesInPlace:
		r.list.tries++
		r.fail(err, Listing) // this page again
	default:
		r.mostRecent = r.mostRecent || apierrors.IsTimeout(err) // it may have waited for the version
		r.fail(err, Starting)
	}
}

// askForMostRecent switches to the most recent state if a list failed because the server cannot serve the
// version that was asked for. It is true only once until a list succeeds, so the next list may follow at once.
func (r *Reflector[T]) askForMostRecent(reason Reason) bool {
	if (reason != Expired && reason != Behind) || !r.knowsVersion() {
		return false
	}
	r.mostRecent = true
	return true
}

// replace hands the gathered collection to the sink and goes on with watching. It refuses to go back in time,
// and is false then.
func (r *Reflector[T]) replace(version string) bool {
	if object.OlderResourceVersion(version, r.last) {
		r.mostRecent = true
		r.closeStream()
		r.fail(behindError{version, r.last}, Starting)
		return false
	}
	items := r.list.take()
	count := len(items)
	r.mostRecent, r.unfinished = false, 0
	r.opts.Sink.Replace(items, version)
	r.advance(version)
	r.succeeded()
	r.synced()
	r.status.gathered.Store(int64(count))
	if r.status.lists.Add(1) > 1 {
		r.status.relists.Add(1)
		r.log.Info("relisted", "objects", count, "resource_version", version)
	}
	r.enter(Watching)
	return true
}

// synced notes that the sink holds a whole collection.
func (r *Reflector[T]) synced() {
	if r.status.synced.nanos.Load() == 0 {
		r.status.synced.store(time.Now())
	}
}
