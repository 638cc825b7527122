package deltafifo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

type (
	thing = metav1.PartialObjectMetadata
	delta = object.Delta[*thing]
	items = object.Items[*thing]
)

func newThing(name string, uid, version int) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("u", uid)), ResourceVersion: strconv.Itoa(version)}}
}

func change(t object.DeltaType, o *thing) delta {
	return delta{Key: object.KeyOf(o), Object: o, Type: t}
}

func update(from, to *thing) delta {
	return delta{Key: object.KeyOf(to), Object: to, Old: from, Type: object.Updated}
}

// added returns n deltas of different objects.
func added(n int) []delta {
	run := make([]delta, n)
	for i := range run {
		run[i] = change(object.Added, newThing(fmt.Sprintf("n%06d", i), i, i+1))
	}
	return run
}

// pop returns the next batch, and fails if there is none.
func pop(t testing.TB, q *Queue[*thing]) Batch[*thing] {
	t.Helper()
	if idle(q) {
		t.Fatal("nothing is pending")
	}
	b, err := q.Pop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// idle reports whether Pop would wait.
func idle(q *Queue[*thing]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !slices.ContainsFunc(q.entries.items[q.entries.head:], func(e entry[*thing]) bool {
		return e.merged == nil || e.merged.len() > 0 || e.ResourceVersion != ""
	})
}

// model is the known state, by key.
type model map[object.Key]*thing

// picture returns the model's objects that pass, sorted by key.
func (m model) picture(pass func(object.Key) bool) items {
	var all items
	for _, k := range slices.SortedFunc(maps.Keys(m), object.Key.Compare) {
		if pass(k) {
			all = append(all, m[k])
		}
	}
	return all
}

func (m model) String() string { return m.text(func(object.Key) bool { return true }) }

func (m model) text(pass func(object.Key) bool) string {
	s := ""
	for _, o := range m.picture(pass) {
		s += fmt.Sprintf("%s=%s/%s ", object.KeyOf(o), o.UID, o.ResourceVersion)
	}
	return s
}

// text formats deltas for comparison: one per word, as Type:name/uid/version, with other relevant fields.
func text(deltas []delta) string {
	s := ""
	for i, d := range deltas {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%s:%s/%s/%s", d.Type, d.Key, d.Object.UID, d.Object.ResourceVersion)
		if d.Old != nil {
			s += "<" + d.Old.ResourceVersion
		}
		if d.Initial {
			s += "+initial"
		}
		if d.FinalStateUnknown {
			s += "+missed"
		}
	}
	return s
}

// consumer applies what it receives, and fails if that is inconsistent with what it received before.
type consumer struct {
	t     testing.TB
	state model
}

func (c *consumer) apply(b *Batch[*thing]) {
	c.t.Helper()
	if b.Type == Replace {
		c.state = model{}
	}
	for d := range b.All() {
		c.tell(d)
	}
}

func (c *consumer) tell(d delta) {
	c.t.Helper()
	have := c.state[d.Key]
	fits := false
	switch d.Type {
	case object.Added:
		fits = have == nil
	case object.Replaced:
		fits = d.Old == have
	case object.Updated, object.Deleted:
		fits = have != nil && d.Old == have
	case object.Sync:
		fits = have == d.Object && have != nil
	}
	if !fits {
		c.t.Fatalf("told %s while knowing %v", text([]delta{d}), c.state)
	}
	if c.state[d.Key] = d.Object; d.Type == object.Deleted {
		delete(c.state, d.Key)
	}
}
