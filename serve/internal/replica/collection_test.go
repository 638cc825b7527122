package replica

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

// TestHistoryAge forgets changes when they are old.
func TestHistoryAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollection(Limits{Bytes: 1 << 20, Age: 5 * time.Minute})
		c.Replace(object.Items[*codec.Raw](nil), "1")
		add := func(version string) { addMap(t, c, "x"+version, version) }
		add("2")
		time.Sleep(4 * time.Minute)
		add("3")
		if s := c.Stats(); s.Changes != 2 || s.Floor != 1 {
			t.Errorf("after 4 minutes: %d changes after %d", s.Changes, s.Floor)
		}
		time.Sleep(2 * time.Minute)
		add("4")
		if s := c.Stats(); s.Changes != 2 || s.Floor != 2 {
			t.Errorf("after 6 minutes: %d changes after %d", s.Changes, s.Floor)
		}
	})
}

// addMap adds a config map to a collection.
func addMap(t *testing.T, c *Collection, name, version string) {
	t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version}}
	data, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := codec.ParseRaw(data, true)
	if err != nil {
		t.Fatal(err)
	}
	c.Add([]object.Delta[*codec.Raw]{{Type: object.Added, Key: object.KeyOf(raw), Object: raw}}, version)
}

// TestRemovedWhileAsked has a resource be removed, and come back as something else, while a request for it waits to be
// allowed: nothing of the new objects is taken for one of the old kind.
func TestRemovedWhileAsked(t *testing.T) {
	c := NewCollection(Limits{Bytes: 1 << 20, Age: time.Minute})
	c.Replace(object.Items[*codec.Raw](nil), "1")
	addMap(t, c, "x", "2")
	v, key := c.View(nil, nil), object.Key{Namespace: "default", Name: "x"}
	if o, err := v.Get(key); o == nil || err != nil {
		t.Fatal(o, err)
	}
	c.Remove()
	if o, err := v.Get(key); o != nil || !errors.Is(err, protocol.ErrGone) {
		t.Error(o, err)
	}
	c.Replace(object.Items[*codec.Raw](nil), "3")
	addMap(t, c, "x", "4")
	if o, err := v.Get(key); o != nil || !errors.Is(err, protocol.ErrGone) {
		t.Error(o, err)
	}
	if _, err := v.List(v.Version()); !errors.Is(err, protocol.ErrCompacted) {
		t.Error(err)
	}
	if tail := v.After(0); !tail.Lost {
		t.Error(tail)
	}
}

// TestWorkEndsWithResource: requests that come while a resource ends start nothing that would outlive it.
func TestWorkEndsWithResource(t *testing.T) {
	f := newFreshness(t.Context(), NewCollection(Limits{}), nil)
	f.wait()
	if f.start(func() { t.Error("started") }) {
		t.Error("work is said to have started")
	}
	f.look(t.Context(), 1)
	f.expect(1, func() {}, func() {})
	if _, err := f.mostRecent(t.Context()); err != ErrForward {
		t.Error(err)
	}
	f.work.Wait()
}
