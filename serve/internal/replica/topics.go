package replica

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

// topics wakes a watcher of the pods of one node only for changes of these: an agent on every node
// watches its own pods, and a change concerns one of a thousand such watchers.
//
// A watcher that sleeps keeps its position, which the journal may no longer reach when it is woken.
// That is no loss unless a change of its own topic was dropped. The lock of the collection guards
// everything here.
type topics struct {
	known   bool // whether the resource has topics
	watched map[string]*topic
	touched []*topic // to be woken
}

// topic is the pods of one node.
type topic struct {
	name     string
	watchers int
	changed  chan struct{} // closed and replaced on every change of the topic
	// the version of the last change that the journal no longer has, of the topic or from before it
	dropped uint64
}

// topicField is the field by whose value changes are told apart.
const topicField = "spec.nodeName"

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// topicsOf returns the topics of a change, before and after; resource is nil for one without topics.
func topicsOf(resource *protocol.ResourceType, c protocol.Change) (names [2]string) {
	if resource == nil {
		return names
	}
	for i, o := range []object.Object{c.Before, c.After} {
		if o != nil {
			names[i] = resource.Fields(o).Get(topicField)
		}
	}
	return names
}

// touch has the next call of wake wake the watchers of a change.
func (t *topics) touch(e *entry) {
	for _, name := range e.topics {
		if watched := t.watched[name]; watched != nil && e.isOf(name) {
			t.touched = append(t.touched, watched)
		}
	}
}

// isOf reports whether a change concerns a topic.
func (e *entry) isOf(name string) bool {
	return e.Before != nil && e.topics[0] == name || e.After != nil && e.topics[1] == name
}

// drop notes that the journal no longer has a change.
func (t *topics) drop(e *entry) {
	if len(t.watched) == 0 {
		return
	}
	for _, name := range e.topics {
		if watched := t.watched[name]; watched != nil && e.isOf(name) {
			watched.dropped = e.Version
		}
	}
}

// lose notes that what happened before a version is unknown.
func (t *topics) lose(version uint64) {
	for _, watched := range t.watched {
		watched.dropped = version
	}
}

// wake wakes the watchers of the noted changes.
func (t *topics) wake() {
	for _, watched := range t.touched {
		watched.wake()
	}
	t.touched = t.touched[:0]
}

func (t *topics) wakeAll() {
	for _, watched := range t.watched {
		watched.wake()
	}
	t.touched = t.touched[:0]
}

func (t *topic) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Of returns a view for a watch, which sees no more changes than the selection needs. leave has to be called at the
// end.
func (v View) Of(s *protocol.Selection) (_ View, leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := &v.topics
	name, ok := topicOf(s.Options.FieldSelector)
	if !ok || !t.known {
		return v, func() {}
	}
	if t.watched == nil {
		t.watched = map[string]*topic{}
	}
	watched := t.watched[name]
	if watched == nil {
		watched = &topic{name: name, changed: make(chan struct{}), dropped: v.journal.floor}
		t.watched[name] = watched
	}
	watched.watchers++
	v.topic = watched
	return v, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if watched.watchers--; watched.watchers == 0 {
			delete(t.watched, name)
		}
	}
}

// topicOf returns the topic that everything matching a selector belongs to.
func topicOf(s fields.Selector) (name string, ok bool) {
	if s == nil {
		return "", false
	}
	for _, r := range s.Requirements() {
		if r.Field == topicField && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) {
			return r.Value, true
		}
	}
	return "", false
}
