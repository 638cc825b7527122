package moments

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/journal"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source/recording"
)

// maxBytes is what the journal of one collection may take of memory. As packed as it is, that is a day of 300,000 pods
// that are all replaced.
const maxBytes = 1 << 30

// Past is what happened to the selected objects of a recording between two moments: any of them at any moment in
// between, or only at the two. It is kept in a journal for each collection, without values of Secrets.
type Past struct {
	every       bool // keep every change
	began       time.Time
	collections []*collection
	objects     map[string]*Object // by history.Item.Key
}

// collection is the past of one recorded collection. Its journal is numbered by the changes themselves, because the
// versions of a server that was restored from a backup go back.
type collection struct {
	journal *journal.Journal
	initial []history.Item // objects of the first list, until it is complete
	synced  bool
	changes int
}

// Object is the past of one object.
type Object struct {
	Resource resources.Resource
	key      object.Key
	began    time.Time
	of       *collection
	last     time.Time // of the last change; zero if there was none
	unknown  bool      // the last change is a deletion that was missed
	// pending is the last change, if only the two moments matter and it is not in the journal yet.
	pending *history.Item
}

// Read reads what happened to the selected objects from one moment to another. What is there when a collection is first
// listed was there when the recording began.
func Read(rec *recording.Recording, only history.Selection, from, to time.Time) (*Past, error) {
	return (&Past{every: true}).read(rec, only, from, to, maxBytes)
}

// read is Read with a limit of bytes. Without p.every, what was between the moments is left out.
func (p *Past) read(
	rec *recording.Recording, only history.Selection, from, to time.Time, most int64,
) (*Past, error) {
	p.objects = map[string]*Object{}
	p.began, _ = rec.Began()
	for _, scope := range rec.Collections() {
		resource := scope.Resource.GroupResource()
		resource.Resource = cmp.Or(resource.Resource, "objects") // a source that does not name its resource
		j, err := journal.New(journal.Options{
			Resource: resource, AllowSecrets: true, MaxBytes: most, MaxAge: max(to.Sub(from), 1),
		})
		if err != nil {
			return nil, err
		}
		p.collections = append(p.collections, &collection{journal: j})
	}
	passed := false // the first moment
	for item, err := range history.Of(rec) {
		if err != nil {
			return nil, err
		}
		if !passed && item.Time.After(from) {
			passed = true
			if err := p.flush(); err != nil {
				return nil, err
			}
		}
		late := item.Time.After(to)
		if late && !slices.ContainsFunc(p.collections, func(c *collection) bool { return !c.synced }) {
			break
		}
		if late && !item.Initial && item.Kind != history.Synced {
			continue
		}
		if err := p.add(item, only); err != nil {
			return nil, err
		}
	}
	return p, p.flush()
}

func (p *Past) add(item history.Item, only history.Selection) error {
	c := p.collections[item.Collection]
	switch {
	case item.Kind == history.Synced:
		return c.begin(p.began)
	case item.Kind != history.Change || !only.Includes(item):
		return nil
	}
	key := item.Key()
	o := p.objects[key]
	if o == nil || !item.Initial && o.of != c { // of several informers, the one that was told last
		o = &Object{Resource: item.Resource, key: object.KeyOf(item.Object()), began: p.began, of: c}
		p.objects[key] = o
	}
	if item.Initial {
		o.pending = nil
		c.initial = append(c.initial, item)
		return nil
	}
	o.last, o.unknown = item.Time, item.Unknown
	if !p.every {
		o.pending = &item
		return nil
	}
	return c.add(item)
}

// flush adds the pending changes to the journals.
func (p *Past) flush() error {
	for _, o := range p.objects {
		if o.pending == nil {
			continue
		}
		if err := o.of.add(*o.pending); err != nil {
			return err
		}
		o.pending = nil
	}
	return nil
}

// begin begins the journal with the objects of the first list.
func (c *collection) begin(began time.Time) error {
	var invalid error
	err := c.journal.Reset("0", began, func(yield func(journal.Change) bool) {
		for _, item := range c.initial {
			var change journal.Change
			if change, invalid = changeOf(item, 0); invalid != nil || !yield(change) {
				return
			}
		}
	})
	c.initial, c.synced = nil, true
	return cmp.Or(invalid, err)
}

func (c *collection) add(item history.Item) error {
	c.changes++
	change, err := changeOf(item, c.changes)
	if err != nil {
		return err
	}
	return c.journal.Add(change)
}

func changeOf(item history.Item, number int) (journal.Change, error) {
	kind := object.Updated
	switch {
	case item.After == nil:
		kind = object.Deleted
	case item.Before == nil:
		kind = object.Added
	}
	o := item.Object()
	data, err := json.Marshal(redact.Object(item.Resource.GroupResource(), o.Object))
	if err != nil {
		return journal.Change{}, fmt.Errorf("%s: %w", item.Key(), redact.Decoding(err))
	}
	return journal.Change{
		Key: object.KeyOf(o), UID: o.GetUID(), Version: strconv.Itoa(number), Time: item.Time, Type: kind, Object: data,
	}, nil
}

func stateOf(c journal.Change) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(c.Object, &u.Object); err != nil {
		return nil, redact.Decoding(err)
	}
	return u, nil
}

// Objects returns the objects, also those that do not exist any more, in order of resources, namespaces and names.
func (p *Past) Objects() (objects []*Object) {
	for _, key := range slices.Sorted(maps.Keys(p.objects)) {
		objects = append(objects, p.objects[key])
	}
	return objects
}

// Namespace returns the object's namespace, "" if it has none.
func (o *Object) Namespace() string { return o.key.Namespace }

// At returns the object as it was at a moment, nil if there was none. It is the caller's.
func (o *Object) At(t time.Time) (*unstructured.Unstructured, error) {
	c, err := o.of.journal.At(o.key, journal.Moment(t))
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, o.explain(err)
	}
	return stateOf(c)
}

// Changes returns the object as the recording began, if it existed, and then its changes in order.
func (o *Object) Changes() iter.Seq2[history.Item, error] {
	return func(yield func(history.Item, error) bool) {
		before, err := o.At(o.began)
		if err != nil || before != nil {
			first := history.Item{Kind: history.Change, Time: o.began, Resource: o.Resource, After: before,
				Initial: true}
			if !yield(first, err) || err != nil {
				return
			}
		}
		for c, err := range o.of.journal.Since("0") {
			if err == nil && c.Key != o.key {
				continue
			}
			var after *unstructured.Unstructured
			if err = o.explain(err); err == nil {
				after, err = stateOf(c)
			}
			item := history.Item{Kind: history.Change, Time: c.Time, Resource: o.Resource, Before: before, After: after}
			if c.Type == object.Deleted {
				item.Before, item.After = after, nil
			}
			if !yield(item, err) || err != nil {
				return
			}
			before = item.After
		}
	}
}

// explain says what to do if the journal was too small.
func (o *Object) explain(err error) error {
	if !errors.Is(err, journal.ErrTooOld) {
		return err
	}
	begins := o.of.journal.Stats().BeginTime.Local().Format("15:04:05.000")
	return fmt.Errorf("%s changed too much to be kept in memory: what is left begins at %s; "+
		"name a later moment, or fewer objects", o.Resource.Name(), begins)
}
