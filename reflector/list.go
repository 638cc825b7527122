package reflector

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// maxEmptyPages is how many pages in a row may be empty although more are to follow.
const maxEmptyPages = 16

// richPageFraction is the fraction, 1/richPageFraction, of its limit that a page must have for the
// next one to be exempt from the request rate.
const richPageFraction = 10

var errNoProgress = errors.New("the list does not come to an end: the server keeps sending empty pages or repeats its continue tokens")

// list is a collection being gathered from pages or from the initial events of a watch.
type list[T object.Object] struct {
	// isStranger reports whether an item is a stranger; see numbering. stranger is the key of one.
	isStranger func(intake.Received[T]) bool
	stranger   object.Key
	// items is nil until the first one comes.
	items intake.Gathering[T]
	// gather makes items. kept is called with the newest version of what the holder keeps of abandoned ones.
	gather func(n int) intake.Gathering[T]
	kept   func(version string)
	// version is the version of the first page: a watch from there misses nothing. newest is the
	// newest version of an item.
	version, newest string
	// recent says that the most recent state was requested.
	recent bool
	// token is the continue token for the next page; tokens holds the hashes of all tokens so far.
	token  string
	tokens map[uint64]struct{}
	// unpaged is set once the continue token has expired, to request everything at once.
	unpaged bool
	// rich says that the last page was reasonably full, which exempts the next one from the request rate.
	rich bool
	// pages counts the pages, empty the consecutive empty ones, tries the failures of the page that token stands for.
	pages, empty, tries int
	// index maps keys to indexes of items. It is built when first needed.
	index map[object.Key]int
	// changed maps keys to the versions of the newest changes since index was built; not of objects
	// that came only once.
	changed map[object.Key]string
	// skipped holds the objects that could not be decoded, with their errors. Their last known states are kept.
	skipped map[object.Key]error
	// versioned is set once an initial event had a version.
	versioned bool
	// err is why the list cannot be used, if that was noticed while reading it.
	err error
	// wentBack reports whether an object is in an older state than the sink's; nil if that is not
	// checked. older is the key of such an object.
	wentBack func(intake.Received[T]) bool
	older    object.Key

	// hint is the number of objects in the last complete list, and furthest the most pages that a list has got
	// since there was progress. Both survive a restart of the list.
	hint, maxPages int
}

// restart resets the list.
func (l *list[T]) restart() {
	if l.items != nil {
		l.close(l.items)
	}
	*l = list[T]{gather: l.gather, kept: l.kept, isStranger: l.isStranger, wentBack: l.wentBack, hint: l.hint, maxPages: l.maxPages}
}

// close closes items.
func (l *list[T]) close(items intake.Gathering[T]) {
	if version := items.Close(); version != "" {
		l.kept(version)
	}
}

// len returns the number of items.
func (l *list[T]) len() int {
	if l.items == nil {
		return 0
	}
	return l.items.Len()
}

// add appends an item, unless the holder leaves it out. The first one allocates room for as many as are expected.
func (l *list[T]) add(item intake.Received[T]) (kept bool) {
	l.begin()
	if l.wentBack != nil && l.wentBack(item) {
		l.older = item.Key()
	}
	if l.isStranger(item) {
		l.stranger = item.Key()
	}
	l.newest = object.MaxResourceVersion(l.newest, item.Version())
	if len(l.skipped) > 0 {
		delete(l.skipped, item.Key())
	}
	return l.items.Add(item)
}

func (l *list[T]) begin() {
	if l.items == nil {
		l.items = l.gather(l.hint + l.hint/16 + 16)
	}
}

// skip records that an object cannot be decoded. A state of it that was gathered before is kept. It
// returns false for an object of the wrong kind, which makes the whole list unusable.
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

// take removes the items from the list and restarts it. The caller closes the items.
func (l *list[T]) take() intake.Gathering[T] {
	l.begin()
	items := l.items
	l.hint, l.items = items.Len(), nil
	l.restart()
	return items
}

// buildIndex builds index. Of items with the same key, it keeps the last.
func (l *list[T]) buildIndex() {
	if l.index != nil {
		return
	}
	l.index, l.changed = make(map[object.Key]int, l.len()), map[object.Key]string{}
	for i := l.len() - 1; i >= 0; i-- {
		key := l.items.Key(i)
		if _, again := l.index[key]; again {
			l.removeItem(i)
			continue
		}
		l.index[key] = i
	}
}

// removeItem removes the i-th item, in whose place comes the last, which the index has.
func (l *list[T]) removeItem(i int) {
	l.index[l.items.Key(l.len()-1)] = i
	l.items.Remove(i)
}

// apply applies one initial event. Nearly all are Added, one for each object, but objects may be
// changed and deleted while they are being sent. A change that is older than what has come already
// is ignored, as by the sink.
func (l *list[T]) apply(ev *event[T]) {
	l.versioned = l.versioned || !isUnset(ev.ResourceVersion)
	item := ev.received()
	if ev.Type == source.Added && l.index == nil {
		l.add(item)
		return
	}
	l.buildIndex()
	key := item.Key()
	newest, changed := l.changed[key]
	if object.OlderResourceVersion(ev.ResourceVersion, newest) {
		return
	}
	i, held := l.index[key]
	if held && object.OlderResourceVersion(ev.ResourceVersion, l.items.Version(i)) {
		return
	}
	if changed || held || ev.Type != source.Added {
		l.changed[key] = ev.ResourceVersion
	}
	switch {
	case ev.Type == source.Deleted:
		l.remove(key)
	case held:
		l.set(key, i, item)
		delete(l.skipped, key)
	default:
		if l.add(item) {
			l.index[key] = l.len() - 1
		}
	}
}

// set replaces the i-th item, which has this key, unless the holder leaves the new state out.
func (l *list[T]) set(key object.Key, i int, item intake.Received[T]) {
	last := l.items.Key(l.len() - 1)
	if !l.items.Set(i, item) { // the last item took its place
		l.index[last] = i
		delete(l.index, key)
	}
}

// remove removes the item and the skipped object with this key.
func (l *list[T]) remove(key object.Key) {
	l.buildIndex()
	delete(l.skipped, key)
	i, held := l.index[key]
	if !held {
		return
	}
	l.removeItem(i)
	delete(l.index, key)
}

// truncate keeps only the first n items.
func (l *list[T]) truncate(n int) {
	if l.items != nil {
		l.items.Truncate(n)
	}
}

var tokenSeed = maphash.MakeSeed()

// pageDone records the result of the request for one page, which had n items, including skipped ones, of at most limit.
func (l *list[T]) pageDone(n int, limit int64, result source.ListResult) error {
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
	l.token, l.tries, l.rich = result.Continue, 0, n > 0 && int64(n) >= limit/richPageFraction
	if l.token == "" {
		return nil
	}
	sum := maphash.String(tokenSeed, l.token)
	if _, again := l.tokens[sum]; again || l.empty > maxEmptyPages {
		return errNoProgress
	}
	if l.tokens == nil {
		l.tokens = map[uint64]struct{}{}
	}
	l.tokens[sum] = struct{}{}
	return nil
}

// listPage reads one page, which is the whole list if no limit is set.
func (r *Reflector[T]) listPage(ctx context.Context) {
	if r.list.rich {
		r.noteRequest(time.Now())
	} else if !r.admitRequest() {
		return
	}
	opts := r.listOptions()
	if opts.Continue == "" {
		r.list.recent = opts.ResourceVersion == ""
	}
	g := newWatchdog(ctx, r.opts.StallTimeout)
	defer g.stop()
	before := r.list.len()
	n, result, err := r.readPage(g, opts)
	if ctx.Err() != nil {
		return
	}
	r.noteResponse(err)
	if err == nil {
		err = r.list.pageDone(n, opts.Limit, result)
	}
	if err != nil {
		err = g.explain(err)
	}
	r.pageRead(opts, before, err)
}

// pageRead picks what follows a page, before which the list had some items.
func (r *Reflector[T]) pageRead(opts source.ListOptions[T], before int, err error) {
	if err == nil {
		r.noteNumbering(r.list.version, r.list.newest)
	}
	r.noteReached(r.list.version)
	r.noteReached(r.list.newest)
	switch {
	case err != nil:
		r.list.truncate(before)
		r.pageFailed(err, opts)
	case r.behind(r.list.version):
		r.serverBehind(r.list.version, r.list.recent)
	case r.list.token == "" && r.listContradicts(r.list.version):
	case r.list.token == "":
		r.replace(r.list.version)
	case r.list.pages > r.list.maxPages:
		r.list.maxPages = r.list.pages
		r.retry.progressed()
	}
}

// readPage adds a page to the list. It returns the number of its items, including skipped ones.
func (r *Reflector[T]) readPage(g *watchdog, opts source.ListOptions[T]) (n int, result source.ListResult, err error) {
	arrived := func() {
		n++
		g.extend(r.opts.StallTimeout)
		r.status.askedAt.clear()
	}
	opts.Skip = func(e *source.ObjectError) {
		arrived()
		r.skipItem(e)
	}
	result, err = r.callList(g.ctx, opts, func(item intake.Received[T]) error {
		arrived()
		r.list.add(item)
		r.status.gathered.Store(int64(r.list.len()))
		return nil
	})
	return n, result, err
}

// listOptions returns the options for the next page. A list at a version has no limit: servers serve it from their
// cache, whereas a limit would make them read from etcd.
func (r *Reflector[T]) listOptions() source.ListOptions[T] {
	opts := source.ListOptions[T]{Continue: r.list.token, Limit: r.opts.PageSize}
	if opts.Continue == "" && r.knowsVersion() {
		opts.ResourceVersion = object.MaxResourceVersion(r.last, r.status.lead.newest())
		opts.ResourceVersionMatch = string(metav1.ResourceVersionMatchNotOlderThan)
		opts.Limit = 0
	}
	if opts.Continue == "" && r.opts.FirstFromCache && isUnset(r.last) && !r.mostRecent && r.status.lists.Load() == 0 {
		opts.ResourceVersion = "0"
	}
	if r.list.unpaged {
		opts.Limit = 0
	}
	return opts
}

// knowsVersion reports whether the next list should request a state not older than last.
func (r *Reflector[T]) knowsVersion() bool { return !r.mostRecent && !isUnset(r.last) && !r.unproven() }

// isUnset reports whether a watch or list from version begins at an unspecified point.
func isUnset(version string) bool { return version == "" || version == "0" }

func (r *Reflector[T]) pageFailed(err error, opts source.ListOptions[T]) {
	reason := reasonOf(err)
	switch {
	case reason == Expired && opts.Continue != "" && !r.list.unpaged:
		r.list.restart()
		r.list.unpaged = true
	case r.askForMostRecent(reason):
		r.list.restart()
	case opts.Continue != "" && reason.transient() && r.list.tries < triesInPlace:
		r.list.tries++
		r.fail(err, Listing) // this page again
	default:
		r.mostRecent = r.mostRecent || apierrors.IsTimeout(err) // the server may have waited for the version
		r.listMethod.listFailed(reason)
		r.fail(err, Starting)
	}
}

// askForMostRecent switches to the most recent state if a list failed because the server cannot serve the
// requested version. It returns true only once until a list succeeds, so the next list may follow immediately.
func (r *Reflector[T]) askForMostRecent(reason Reason) bool {
	if (reason != Expired && reason != Behind) || !r.knowsVersion() {
		return false
	}
	r.mostRecent = true
	return true
}

// replace hands the gathered collection to the sink and goes on to Watching.
func (r *Reflector[T]) replace(version string) {
	gathered := r.list.len()
	r.keepSkipped()
	items := r.list.take()
	defer r.list.close(items)
	count := items.Len()
	if r.listMethod.tryLists {
		r.fallBack()
	}
	r.mostRecent, r.history, r.resuming.active = false, history{}, false
	r.listMethod.unfinished, r.listMethod.forbidden, r.listMethod.next = 0, 0, false
	r.deafness.listed()
	r.numbering.strangers = nil
	again := r.status.lists.Add(1) > 1 // before the list's contents can be seen
	if again {
		r.status.relists.Add(1)
	}
	r.holder.Replace(items.Collection(), version)
	r.publishSkipped()
	if r.unproven() {
		r.last = "" // events may have brought it to the version of some object
	}
	r.advance(version)
	r.confirmHistory()
	r.lostEvents(false)
	r.listSucceeded()
	r.synced()
	r.status.gathered.Store(int64(gathered))
	if again {
		r.logTogether(slogInfo, "relisted", "relisted", "objects", count, "resource_version", version)
	}
	r.enter(Watching)
}

// synced records that the sink holds a complete collection.
func (r *Reflector[T]) synced() {
	if !r.status.synced.isSet() {
		r.status.set(&r.status.synced, time.Now())
	}
}
