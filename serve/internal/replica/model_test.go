package replica

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// objects is a state: the version of each object.
type objects map[object.Key]uint64

// told is what a collection has been told, as a model: the state after each change since a list.
type told struct {
	since  uint64 // the version of the list; what was before is unknown
	states map[uint64]objects
	upTo   uint64 // nothing else has happened up to it
}

// at returns the state at a version, if it follows from what was told.
func (m *told) at(version uint64) (objects, bool) {
	if len(m.states) == 0 || version < m.since || version > m.upTo {
		return nil, false
	}
	for m.states[version] == nil {
		version--
	}
	return m.states[version], true
}

// now returns the last state.
func (m *told) now() objects {
	state, _ := m.at(m.upTo)
	return state
}

// modelWorld is a collection, what it has been told, and what was read from it.
type modelWorld struct {
	t      *testing.T
	random *rand.Rand
	c      *Collection
	model  told
	proven uint64 // up to which it was proven that nothing happens; 0 if that has been overtaken
	views  []View // of earlier histories
	held   []heldList
}

// heldList is a list that was read before, and what it had.
type heldList struct {
	protocol.List
	state objects
}

// rawMap returns a config map as an API server sends it.
func rawMap(t *testing.T, key object.Key, version uint64) *codec.Raw {
	t.Helper()
	o := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: Format(version)},
		Data:       map[string]string{"version": Format(version), "text": strings.Repeat("much the same ", 20)},
	}
	data, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := codec.ParseRaw(data, true)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestListsAgainstModel: a list at an exact version is the state at that version, or there is none; whatever happens to
// the server's history, and however long it is held.
func TestListsAgainstModel(t *testing.T) {
	for _, packs := range []bool{false, true} {
		for range 20 {
			w := &modelWorld{t: t, random: testseed.Rand(t)}
			w.c = NewCollection(Limits{Bytes: 1 << (10 + w.random.IntN(8)), Age: time.Hour})
			w.c.journal.every = 1 + w.random.IntN(8)
			maps := &protocol.ResourceType{
				GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap",
				Namespaced: true, BuiltIn: true,
			}
			if err := w.c.begin(maps, packs); err != nil {
				t.Fatal(err)
			}
			w.list(10)
			for range 150 {
				w.step()
				w.check()
			}
		}
	}
}

func (w *modelWorld) step() {
	switch w.random.IntN(12) {
	case 0: // a bookmark
		w.model.upTo += uint64(w.random.IntN(3))
		w.c.Add(nil, Format(w.model.upTo))
	case 1: // a proof that nothing happens for a while
		since, epoch := w.c.position()
		w.model.upTo += uint64(w.random.IntN(5))
		w.c.prove(epoch, since, w.model.upTo)
		w.proven = w.model.upTo
	case 2: // a list of what has happened meanwhile, or of a server that was restored
		w.list(w.model.upTo + uint64(w.random.IntN(10)) - min(w.model.upTo-1, uint64(w.random.IntN(10))))
	case 3: // the server was restored to after the last change, and goes on from there
		since, _ := w.c.position()
		if w.proven <= since+1 {
			return
		}
		w.model.upTo = since + uint64(w.random.IntN(int(w.proven-since-1)))
		w.forget()
		w.change(1)
	default:
		w.change(1 + w.random.IntN(5))
	}
}

// forget remembers a view of the history, which then ends.
func (w *modelWorld) forget() { w.views, w.proven = append(w.views, w.c.View(nil, nil)), 0 }

func (w *modelWorld) key() object.Key {
	namespaces := []string{"a", "a-b", "b", "a.b"} // whose order is not that of paths
	return object.Key{Namespace: namespaces[w.random.IntN(4)], Name: fmt.Sprint("n", w.random.IntN(12))}
}

// change has changes happen, which come together.
func (w *modelWorld) change(n int) {
	var deltas []object.Delta[*codec.Raw]
	for range n {
		w.model.upTo += 1 + uint64(w.random.IntN(2))
		key, version, state := w.key(), w.model.upTo, maps.Clone(w.model.states[w.lastChange()])
		_, existed := state[key]
		d := object.Delta[*codec.Raw]{Type: object.Updated, Key: key, Object: rawMap(w.t, key, version)}
		if existed && w.random.IntN(3) == 0 {
			d.Type = object.Deleted
			delete(state, key)
		} else {
			state[key] = version
		}
		deltas = append(deltas, d)
		w.model.states[version] = state
	}
	w.c.Add(deltas, Format(w.model.upTo))
}

// lastChange returns the version of the last change.
func (w *modelWorld) lastChange() (last uint64) {
	for version := range w.model.states {
		last = max(last, version)
	}
	return last
}

// list has the collection be listed at a version.
func (w *modelWorld) list(version uint64) {
	state := maps.Clone(w.model.now())
	if state == nil {
		state = objects{}
	}
	if version < w.model.upTo {
		w.forget()
		maps.DeleteFunc(state, func(_ object.Key, of uint64) bool { return of > version })
	}
	if version != w.model.upTo { // otherwise nothing has happened
		for range w.random.IntN(4) {
			state[w.key()] = version
		}
		if known, _ := w.c.position(); known == version && maps.Equal(state, w.model.now()) {
			w.model.upTo = version // what led there is still true
		} else {
			w.model = told{since: version, upTo: version, states: map[uint64]objects{version: state}}
		}
	}
	var items object.Items[*codec.Raw]
	for key, version := range state {
		items = append(items, rawMap(w.t, key, version))
	}
	g := holder{w.c}.Gather(len(items))
	defer g.Close()
	for _, raw := range items {
		g.Add(received(raw))
	}
	w.c.Replace(g.Collection(), Format(version))
}

// check reads lists of some versions.
func (w *modelWorld) check() {
	w.t.Helper()
	view := w.c.View(nil, nil)
	if got := view.Version(); got != w.model.upTo {
		w.t.Fatalf("it is at %d, and was told of %d", got, w.model.upTo)
	}
	for range 4 {
		version := w.model.upTo + 3 - min(w.model.upTo+2, uint64(w.random.IntN(30)))
		list, err := view.List(version)
		want, known := w.model.at(version)
		switch {
		case err == nil && !known:
			w.t.Fatalf("a list at %d, of what was told from %d to %d", version, w.model.since, w.model.upTo)
		case err != nil && known && version >= view.Oldest():
			w.t.Fatalf("no list at %d: %v", version, err)
		case err == nil:
			w.held = append(w.held, heldList{list, want})
			w.checkTail(view, version, want)
		}
	}
	for _, old := range w.views {
		if _, err := old.List(w.model.upTo); err == nil {
			w.t.Fatal("a list of a history that is no more")
		}
	}
	for _, l := range w.held {
		w.checkList(l)
	}
	if len(w.held) > 12 {
		w.held = w.held[4:]
	}
}

// checkList compares a part of a list with what it should have.
func (w *modelWorld) checkList(l heldList) {
	w.t.Helper()
	prefix := []string{"", "a/", "a-b/", "b/"}[w.random.IntN(4)]
	start := []string{"", "n", "n3\x00", "n9"}[w.random.IntN(4)]
	if prefix == "" && start != "" {
		start = []string{"a", "a/n3", "a-b/n3\x00", "a.b/x", "b"}[w.random.IntN(5)]
	}
	var want, got []string
	for key, version := range l.state {
		if path := key.String(); strings.HasPrefix(path, prefix) && path >= prefix+start {
			want = append(want, path+"@"+Format(version))
		}
	}
	slices.SortFunc(want, func(a, b string) int {
		return strings.Compare(strings.Split(a, "@")[0], strings.Split(b, "@")[0])
	})
	for o := range l.From(prefix, start) {
		data, _ := o.(protocol.Encoded).Encoding()
		if !strings.Contains(string(data), o.GetResourceVersion()) {
			w.t.Fatalf("%v has other bytes", object.KeyOf(o))
		}
		got = append(got, object.KeyOf(o).String()+"@"+o.GetResourceVersion())
	}
	if !slices.Equal(got, want) || l.Count(prefix, start) != len(want) {
		w.t.Fatalf("%q from %q: %d: %v, want %v", prefix, start, l.Count(prefix, start), got, want)
	}
}

// checkTail applies the changes after a version to the state at it.
func (w *modelWorld) checkTail(view View, version uint64, state objects) {
	w.t.Helper()
	tail, state := view.After(version), maps.Clone(state)
	for _, c := range tail.Changes {
		if c.After == nil {
			delete(state, object.KeyOf(c.Before))
		} else {
			state[object.KeyOf(c.After)] = c.Version
		}
	}
	if tail.Lost || !maps.Equal(state, w.model.now()) {
		w.t.Fatalf("the changes after %d (lost: %t) lead to %v, want %v", version, tail.Lost, state, w.model.now())
	}
}
