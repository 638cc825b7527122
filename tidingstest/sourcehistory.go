package tidingstest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// historySteps is the minimum number of changes that a sourceHistory goes back.
const historySteps = 1000

// sourceHistory records what a source has returned so far, for stale results. The zero value is empty.
type sourceHistory[T object.Object] struct {
	mu    sync.Mutex
	steps []step[T]                // oldest first; the first is a whole list
	pages map[string]unfinished[T] // incomplete lists, by the token for the next page
}

// unfinished is a list that is being read.
type unfinished[T object.Object] struct {
	objects map[object.Key]T // so far; nil if the list is not recorded
	known   string           // the version that was known when it began
}

// step is the difference between one state of the source and the next.
type step[T object.Object] struct {
	version string
	set     map[object.Key]T
	gone    []object.Key
}

func (p *sourceHistory[T]) known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.steps) > 0
}

// begin returns a list of which nothing has been read.
func (p *sourceHistory[T]) begin() unfinished[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return unfinished[T]{objects: map[object.Key]T{}, known: p.version()}
}

// page returns a list before the page with the token.
func (p *sourceHistory[T]) page(token string) unfinished[T] {
	if token == "" {
		return p.begin()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.pages[token]
	l.objects = maps.Clone(l.objects) // a page may be requested again
	return l
}

// addPage records a list up to the end of a page.
func (p *sourceHistory[T]) addPage(l unfinished[T], result source.ListResult) {
	if result.Continue == "" {
		p.addList(l, result.ResourceVersion)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pages == nil {
		p.pages = map[string]unfinished[T]{}
	}
	p.pages[result.Continue] = l
}

// addList records a whole list. One that is older than what was known before starts a new history:
// the server may have been restored.
func (p *sourceHistory[T]) addList(l unfinished[T], version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.steps) == 0 || object.OlderResourceVersion(version, l.known):
		p.steps = []step[T]{{version: version, set: l.objects}}
		return
	case object.OlderResourceVersion(version, p.version()):
		return // a watch went on while the list was read
	}
	next := step[T]{version: version, set: map[object.Key]T{}}
	last := p.state(len(p.steps))
	for key, o := range l.objects {
		if held, ok := last[key]; !ok || held.GetResourceVersion() != o.GetResourceVersion() || held.GetUID() != o.GetUID() {
			next.set[key] = o
		}
		delete(last, key)
	}
	next.gone = slices.Collect(maps.Keys(last))
	p.add(next)
}

// addEvent records an event of a watch.
func (p *sourceHistory[T]) addEvent(o T, gone bool, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.steps) == 0 || !object.OlderResourceVersion(p.version(), version) {
		return // of a watch before any list, or of the second of two watches
	}
	next := step[T]{version: version}
	if key := object.KeyOf(o); gone {
		next.gone = []object.Key{key}
	} else {
		next.set = map[object.Key]T{key: o}
	}
	p.add(next)
}

// add appends a step. If there are too many, it merges the older half into one. The lock is held.
func (p *sourceHistory[T]) add(s step[T]) {
	p.steps = append(p.steps, s)
	if len(p.steps) > 2*historySteps {
		first := step[T]{version: p.steps[historySteps-1].version, set: p.state(historySteps)}
		p.steps = append([]step[T]{first}, p.steps[historySteps:]...)
	}
}

// version returns the latest version, "" if none is known. The lock is held.
func (p *sourceHistory[T]) version() string {
	if len(p.steps) == 0 {
		return ""
	}
	return p.steps[len(p.steps)-1].version
}

// state returns the objects after the first n steps. The lock is held.
func (p *sourceHistory[T]) state(n int) map[object.Key]T {
	state := map[object.Key]T{}
	for _, s := range p.steps[:n] {
		maps.Copy(state, s.set)
		for _, key := range s.gone {
			delete(state, key)
		}
	}
	return state
}

// stateBefore returns a state without at least this many of the latest changes, in key order, and
// its version. It goes back to the first list at most.
func (p *sourceHistory[T]) stateBefore(changes int) (objects []T, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.steps)
	for ; n > 1 && changes > 0; n-- {
		changes -= len(p.steps[n-1].set) + len(p.steps[n-1].gone)
	}
	state := p.state(n)
	for _, key := range slices.SortedFunc(maps.Keys(state), object.Key.Compare) {
		objects = append(objects, state[key])
	}
	return objects, p.steps[n-1].version
}

// staleState is like stateBefore, for a request that rejects anything older than the wanted version.
func (p *sourceHistory[T]) staleState(changes int, wanted string) (objects []T, version string, err error) {
	objects, version = p.stateBefore(changes)
	if wanted != "0" && object.OlderResourceVersion(version, wanted) {
		return nil, "", protocol.TooLarge(wanted, version)
	}
	return objects, version, nil
}

// list answers a list in one page.
func (p *sourceHistory[T]) list(ctx context.Context, changes int, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
	objects, version, err := p.staleState(changes, opts.ResourceVersion)
	if err != nil {
		return source.ListResult{}, err
	}
	for _, o := range objects {
		if err := each(detached(o, opts.NoSharing)); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: version}, context.Cause(ctx)
}

// initialEvents returns the initial events of a WatchList.
func (p *sourceHistory[T]) initialEvents(changes int, opts source.WatchOptions[T]) ([]source.Event[T], error) {
	objects, version, err := p.staleState(changes, opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	var events []source.Event[T]
	for _, o := range objects {
		events = append(events, source.Event[T]{Type: source.Added, Object: detached(o, opts.NoSharing), ResourceVersion: o.GetResourceVersion()})
	}
	return append(events, source.Event[T]{Type: source.Bookmark, ResourceVersion: version, InitialEventsEnd: true}), nil
}
