// Package history reads a recording as what happened: every change of every object, at the time when it happened, and
// every fault that was recorded.
//
// It needs no informer: the recording has each list and watch as it was delivered, so that the same
// recording always gives the same history, at any speed.
package history

import (
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/redact"
	tidingsobject "github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

type object = *unstructured.Unstructured

// Kind says what an Item is.
type Kind uint8

// The kinds. Each but Change is about a collection as a whole.
const (
	Change      Kind = iota + 1
	Synced           // the collection is known for the first time
	Relisted         // it was listed again, and what was missed has been told
	Failing          // a list or watch failed
	Reconnected      // it works again
	Undecodable      // an object could not be decoded
)

// Item is one thing that happened.
type Item struct {
	Kind     Kind
	Time     time.Time
	Resource resources.Resource
	// Collection is the index of the collection in recording.Recording.Collections; Namespace is its, "" for all.
	Collection int
	Namespace  string

	// Before and After are the states of a Change: Before is nil for an object that was added,
	// After for one that was deleted.
	Before, After object
	// Initial is set for an object of the first list; Unknown for a deletion whose event was missed.
	Initial, Unknown bool

	// Objects and Version are the number of objects and the version of the collection.
	Objects int
	Version string
	// Err is what failed.
	Err error
}

// Object returns the state after the change, or the last one.
func (i Item) Object() object {
	if i.After != nil {
		return i.After
	}
	return i.Before
}

// Of returns what happened in a recording, in order. It ends after the first error.
func Of(rec *recording.Recording) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		began, _ := rec.Began()
		var all []*collection
		for _, scope := range rec.Collections() {
			all = append(all, newCollection(scope))
		}
		for d, err := range rec.Deliveries() {
			if err != nil {
				yield(Item{}, err)
				return
			}
			if d.VersionCheck {
				continue
			}
			for _, item := range all[d.Collection].deliver(d) {
				item.Time, item.Collection = began.Add(d.At), d.Collection
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// collection is the state of one recorded collection.
type collection struct {
	resource  resources.Resource
	namespace string
	objects   map[tidingsobject.Key]object
	version   string
	synced    bool
	failing   bool
	request   int // whose items are pending
	pending   []object
	items     []Item // what the current delivery means
}

func newCollection(scope source.Scope) *collection {
	return &collection{
		resource: resources.Resource{
			GroupVersionResource: scope.Resource, Kind: scope.Kind.Kind, Namespaced: scope.Namespace != "",
		},
		namespace: scope.Namespace, objects: map[tidingsobject.Key]object{},
	}
}

func (c *collection) report(item Item) {
	item.Resource, item.Namespace = c.resource, c.namespace
	item.Objects, item.Version = len(c.objects), c.version
	c.items = append(c.items, item)
}

// deliver returns what a delivery means.
func (c *collection) deliver(d recording.Delivery) []Item {
	c.items = nil
	switch d.Kind {
	case recording.ListBegan, recording.WatchBegan:
		if !d.Continued && (d.Kind == recording.ListBegan || d.InitialEvents) {
			c.pending, c.request = nil, d.Request
		}
	case recording.WatchOpened:
		c.works()
	case recording.Item:
		c.pending = append(c.pending, d.Object)
	case recording.Listed:
		if d.Result.Continue == "" {
			c.replace(d.Result.ResourceVersion)
		}
	case recording.Events:
		for _, ev := range d.Events {
			c.event(ev, d)
		}
	case recording.Skipped:
		c.report(Item{Kind: Undecodable, Err: d.Err})
	case recording.Failed:
		c.fails(d.Err)
	}
	return c.items
}

// fails reports a failure, once until the collection works again. What every watch meets is none:
// its end, and an expired version.
func (c *collection) fails(err error) {
	if err == io.EOF || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || c.failing {
		return
	}
	if !c.synced && strings.Contains(err.Error(), "unsupported") { // a server without initial events
		return
	}
	c.failing = true
	c.report(Item{Kind: Failing, Err: err})
}

// works reports that a failure is over.
func (c *collection) works() {
	if c.failing {
		c.failing = false
		c.report(Item{Kind: Reconnected})
	}
}

func (c *collection) event(ev source.Event[object], d recording.Delivery) {
	if ev.ResourceVersion != "" {
		c.version = ev.ResourceVersion
	}
	if d.InitialEvents && d.Request == c.request { // still the initial list
		switch {
		case ev.Type == source.Bookmark && ev.InitialEventsEnd:
			c.request = 0
			c.replace(ev.ResourceVersion)
		case ev.Type == source.Added, ev.Type == source.Modified:
			c.pending = append(c.pending, ev.Object)
		}
		return
	}
	switch ev.Type {
	case source.Added, source.Modified:
		c.set(ev.Object)
	case source.Deleted:
		key := tidingsobject.KeyOf(ev.Object)
		if _, known := c.objects[key]; known {
			delete(c.objects, key)
			c.report(Item{Kind: Change, Before: ev.Object})
		}
	case source.Invalid:
		c.report(Item{Kind: Undecodable, Err: ev.Err})
	}
}

// set sets an object to a state that is not older than the known one.
func (c *collection) set(after object) {
	key := tidingsobject.KeyOf(after)
	before := c.objects[key]
	switch {
	case before == nil:
	case before.GetResourceVersion() == after.GetResourceVersion():
		return
	case before.GetUID() != after.GetUID(): // its deletion was missed
		delete(c.objects, key)
		c.report(Item{Kind: Change, Before: before, Unknown: true})
		before = nil
	case tidingsobject.OlderResourceVersion(after.GetResourceVersion(), before.GetResourceVersion()):
		return
	}
	c.objects[key] = after
	c.report(Item{Kind: Change, Before: before, After: after})
}

// replace makes the pending objects the collection.
func (c *collection) replace(version string) {
	c.version = version
	listed := c.pending
	c.pending = nil
	if !c.synced {
		c.first(listed)
		return
	}
	c.works()
	missing := maps.Clone(c.objects)
	for _, o := range listed {
		delete(missing, tidingsobject.KeyOf(o))
		c.set(o)
	}
	for _, key := range slices.SortedFunc(maps.Keys(missing), tidingsobject.Key.Compare) {
		delete(c.objects, key)
		c.report(Item{Kind: Change, Before: missing[key], Unknown: true})
	}
	c.report(Item{Kind: Relisted})
}

func (c *collection) first(listed []object) {
	for _, o := range listed {
		c.objects[tidingsobject.KeyOf(o)] = o
		c.report(Item{Kind: Change, After: o, Initial: true})
	}
	c.synced, c.failing = true, false
	c.report(Item{Kind: Synced})
}

// Explain returns the text of an item's error, without values of Secrets.
func (i Item) Explain() string {
	for _, broken := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(i.Err, broken) {
			return "the connection broke: " + broken.Error()
		}
	}
	return redact.Error(i.Resource.GroupResource(), i.Err)
}
