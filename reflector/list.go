package reflector

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// mostEmptyPages is how many pages in a row may be empty although others are to follow.
const mostEmptyPages = 16

// richPage is the part of its limit that a page has to bring for the next one not to count as another request.
const richPage = 10

var errNoProgress = errors.New("the list does not come to an end: the server keeps sending empty pages or repeats its continue tokens")

// list is a collection that is being gathered, from pages or from the initial events of a watch.
type list[T object.Object] struct {
	// items is nil until the first one comes.
	items Gatherer[T]
	// gatherer makes items.
	gatherer func(n int) Gatherer[T]
	// version is that of the first page: a watch from there misses nothing.
	version string
	// recent says that the most recent state was asked for.
	recent bool
	// token asks for the next page, tokens has the hashes of all so far.
	token  string
	tokens map[uint64]struct{}
	// whole is set once the continue token has expired, to ask for everything at once.
	whole bool
	// rich says that the last page brought a fair part of what it might, so that the next one is worth a request.
	rich bool
	// pages counts the pages, empty the empty ones in a row, tries the failures of the page that token asks for.
	pages, empty, tries int
	// at finds the items by key. It is made when it is first needed.
	at map[object.Key]int
	// skipped are the objects that could not be decoded, with the reason. Their last known states are kept.
	skipped map[object.Key]error
	// err is why the list cannot be used, found out while it was read.
	err error
	// wentBack tells whether an object is in an older state than before; nil unless that is in question. older is the key of such a one.
	wentBack func(T) bool
	older    object.Key

	// hint is how many objects the last whole list had, furthest the most pages that one has brought since there
	// was progress. Both stay when the list is restarted.
	hint, furthest int
}

// restart forgets everything but what stays.
func (l *list[T]) restart() {
	if l.items != nil {
		l.items.Close()
	}
	*l = list[T]{gatherer: l.gatherer, wentBack: l.wentBack, hint: l.hint, furthest: l.furthest}
}

// len returns the number of items.
func (l *list[T]) len() int {
	if l.items == nil {
		return 0
	}
	return l.items.Len()
}

// add appends an item. The first one makes room for all that are expected.
func (l *list[T]) add(item T) {
	l.begin()
	if l.wentBack != nil && l.wentBack(item) {
		l.older = object.KeyOf(item)
	}
	l.items.Add(item)
	if len(l.skipped) > 0 {
		delete(l.skipped, object.KeyOf(item))
	}
}

func (l *list[T]) begin() {
	if l.items == nil {
		l.items = l.gatherer(l.hint + l.hint/16 + 16)
	}
}

// skip notes that an object cannot be decoded. What was gathered of it before is kept. It is false for an object of the
// wrong kind, which says that the whole list is of something else.
func (l *list[T]) skip(e *source.ObjectError) bool {
	if _, wrong := errors.AsType[*source.KindError](e); wrong {
		l.err = cmp.Or[error](l.err, e)
		return false
	}
	if l.skipped == nil {
		l.skipped = map[object.Key]error{}
	}
	l.skipped[e.Key] = e
	return true
}

// take takes the items out of the list, which is empty then. The caller closes them.
func (l *list[T]) take() Gatherer[T] {
	l.begin()
	items := l.items
	l.hint, l.items = items.Len(), nil
	l.restart()
	return items
}

// index makes at.
func (l *list[T]) index() {
	if l.at != nil {
		return
	}
	l.at = make(map[object.Key]int, l.len())
	for i := range l.len() {
		l.at[l.items.Key(i)] = i
	}
}

// apply applies one initial event. Nearly all of them are Added and name each object once; but objects may
// change and go while they are being sent.
func (l *list[T]) apply(ev *source.Event[T]) {
	if ev.Type == source.Added && l.at == nil {
		l.add(ev.Object)
		return
	}
	l.index()
	key := object.KeyOf(ev.Object)
	i, held := l.at[key]
	switch {
	case ev.Type == source.Deleted:
		l.remove(key)
	case held:
		l.items.Set(i, ev.Object)
		delete(l.skipped, key)
	default:
		l.at[key] = l.len()
		l.add(ev.Object)
	}
}

// remove drops what is known of a key, and fills the gap with the last item.
func (l *list[T]) remove(key object.Key) {
	l.index()
	delete(l.skipped, key)
	i, held := l.at[key]
	if !held {
		return
	}
	l.at[l.items.Key(l.len()-1)] = i
	delete(l.at, key)
	l.items.Remove(i)
}

// truncate drops the items from n on.
func (l *list[T]) truncate(n int) {
	if l.items != nil {
		l.items.Truncate(n)
	}
}

var tokenSeed = maphash.MakeSeed()

// turn notes the answer to the request for one page that had brought n items of at most limit.
func (l *list[T]) turn(n int, limit int64, result source.ListResult) error {
	if l.err != nil {
		return l.err
	}
	if l.pages == 0 {
		l.version = result.ResourceVersion
	}
	l.pages++
	l.empty++
	if n > 0 {
		l.empty = 0
	}
	l.token, l.tries, l.rich = result.Continue, 0, n > 0 && int64(n) >= limit/richPage
	if l.token == "" {
		return nil
	}
	sum := maphash.String(tokenSeed, l.token)
	if _, again := l.tokens[sum]; again || l.empty > mostEmptyPages {
		return errNoProgress
	}
	if l.tokens == nil {
		l.tokens = map[uint64]struct{}{}
	}
	l.tokens[sum] = struct{}{}
	return nil
}

// listPage reads one page, which is the whole list where no limit is asked for.
func (r *Reflector[T]) listPage(ctx context.Context) {
	if !r.list.rich && !r.admitted() {
		return
	}
	opts := r.listOptions()
	if opts.Continue == "" {
		r.list.recent = opts.ResourceVersion == ""
	}
	g := newGuard(ctx, r.opts.StallTimeout)
	defer g.stop()
	before := r.list.len()
	result, err := r.callList(g.ctx, opts, func(item T) error {
		g.extend(r.opts.StallTimeout)
		r.status.asked.clear()
		r.list.add(item)
		r.status.gathered.Store(int64(r.list.len()))
		return nil
	})
	if ctx.Err() != nil {
		return
	}
	r.answered(err)
	if err == nil {
		err = r.list.turn(r.list.len()-before, opts.Limit, result)
	}
	switch {
	case err != nil:
		r.list.truncate(before)
		r.pageFailed(g.explain(err), opts)
	case r.behind(r.list.version):
		r.foundBehind(r.list.version, r.list.recent)
	case r.list.token == "" && r.list.older.Name != "":
		r.overtaken(r.list.version)
	case r.list.token == "":
		r.replace(r.list.version)
	case r.list.pages > r.list.furthest:
		r.list.furthest = r.list.pages
		r.retry.progressed()
	}
}

// callList is Source.List, but a panic in it is an error.
func (r *Reflector[T]) callList(ctx context.Context, opts source.ListOptions[T], each func(T) error) (result source.ListResult, err error) {
	defer r.status.caught(&err)
	return r.opts.Source.List(ctx, opts, each)
}

// listOptions asks for the next page. A list that names a version has no limit: servers answer that from their
// cache, and a limit would send them to the database.
func (r *Reflector[T]) listOptions() source.ListOptions[T] {
	opts := source.ListOptions[T]{
		Previous: r.previous(), Decode: r.opts.Decode, NoSharing: r.opts.NoSharing, Continue: r.list.token, Limit: r.opts.PageSize, Skip: r.skipItem,
	}
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
		r.method.tryLists = false
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

// replace hands the gathered collection to the sink and goes on with watching.
func (r *Reflector[T]) replace(version string) {
	gathered := r.list.len()
	r.keepSkipped()
	items := r.list.take()
	defer items.Close()
	count := items.Len()
	if r.method.tryLists {
		r.fallBack()
	}
	r.mostRecent, r.method.unfinished, r.history, r.resumed = false, 0, history{}, false
	again := r.status.lists.Add(1) > 1 // before somebody can see what the list brings
	if again {
		r.status.relists.Add(1)
	}
	r.opts.Sink.Replace(items.Collection(), version)
	r.advance(version)
	r.vouch()
	r.lostEvents(false)
	r.listed()
	r.synced()
	r.status.gathered.Store(int64(gathered))
	if again {
		r.logRarely(slogInfo, "relisted", "objects", count, "resource_version", version)
	}
	r.enter(Watching)
}

// synced notes that the sink holds a whole collection.
func (r *Reflector[T]) synced() {
	if !r.status.synced.isSet() {
		r.status.set(&r.status.synced, time.Now())
	}
}
