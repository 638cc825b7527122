package controller

import (
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

var kindReplicaSet = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}

func keysOf(m Mapper[*corev1.Pod], p *corev1.Pod) []object.Key {
	var keys []object.Key
	m(p, func(key object.Key) { keys = append(keys, key) })
	return keys
}

func TestOwner(t *testing.T) {
	s := newServer()
	owners := newPodCache(s)
	byOwner := Owner[*corev1.Pod](owners, kindReplicaSet)
	owned := pod("a", "web")
	no := false
	notController := owned.DeepCopy()
	notController.OwnerReferences[0].Controller = &no
	otherGroup := owned.DeepCopy()
	otherGroup.OwnerReferences[0].APIVersion = "example.com/v1"
	otherKind := owned.DeepCopy()
	otherKind.OwnerReferences[0].Kind = "DaemonSet"
	broken := owned.DeepCopy()
	broken.OwnerReferences[0].APIVersion = "a/b/c"
	for name, p := range map[string]*corev1.Pod{
		"no owner": pod("a", ""), "not a controller": notController, "other group": otherGroup,
		"other kind": otherKind, "broken version": broken,
	} {
		if got := keysOf(byOwner, p); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := keysOf(byOwner, owned); !slices.Equal(got, []object.Key{key("web")}) {
		t.Errorf("owner not in the cache: %v", got)
	}
	if got := keysOf(ClusterOwner[*corev1.Pod](owners, kindReplicaSet), owned); !slices.Equal(got, []object.Key{{Name: "web"}}) {
		t.Errorf("owner without a namespace: %v", got)
	}
	namesake := s.put(pod("web", ""))
	owners.advance(-1)
	if got := keysOf(byOwner, owned); got != nil {
		t.Errorf("namesake: %v", got)
	}
	owned.OwnerReferences[0].UID = namesake.UID
	if got := keysOf(byOwner, owned); !slices.Equal(got, []object.Key{key("web")}) {
		t.Errorf("owner in the cache: %v", got)
	}
}

func TestGenerationChanged(t *testing.T) {
	old, same, changed := pod("a", ""), pod("a", ""), pod("a", "")
	changed.Generation = 2
	for _, test := range []struct {
		d    object.Delta[*corev1.Pod]
		want bool
	}{
		{object.Delta[*corev1.Pod]{Type: object.Updated, Old: old, Object: same}, false},
		{object.Delta[*corev1.Pod]{Type: object.Updated, Old: old, Object: changed}, true},
		{object.Delta[*corev1.Pod]{Type: object.Updated, Object: same}, true},
		{object.Delta[*corev1.Pod]{Type: object.Sync, Old: old, Object: same}, true},
		{object.Delta[*corev1.Pod]{Type: object.Deleted, Object: same}, true},
	} {
		if got := GenerationChanged(test.d); got != test.want {
			t.Errorf("%v: %v", test.d.Type, got)
		}
	}
}

func TestPredicates(t *testing.T) {
	matters := true
	c := New("test", succeed, Options{})
	w := newWatch(newPodCache(newServer()), Self[*corev1.Pod],
		func(object.Delta[*corev1.Pod]) bool { return true },
		func(object.Delta[*corev1.Pod]) bool { return matters })
	for _, test := range []struct {
		matters bool
		obj     *corev1.Pod
		want    int
	}{
		{true, pod("a", ""), 1}, {true, nil, 1}, {false, pod("b", ""), 1}, {true, pod("c", ""), 2},
	} {
		matters = test.matters
		w.handle(c, object.Delta[*corev1.Pod]{Type: object.Added, Object: test.obj}, nil)
		if got := c.Stats().Queue.Depth; got != test.want {
			t.Errorf("%+v: %d keys wait", test, got)
		}
	}
}

func TestPriorityOf(t *testing.T) {
	for _, test := range []struct {
		t       object.DeltaType
		initial bool
		want    workqueue.Priority
	}{
		{object.Added, true, workqueue.Low}, {object.Sync, false, workqueue.Low},
		{object.Added, false, workqueue.Normal}, {object.Deleted, false, workqueue.Normal},
	} {
		if got := priorityOf(test.t, test.initial); got != test.want {
			t.Errorf("%v, initial %v: %d", test.t, test.initial, got)
		}
	}
}

// TestManyKeysOfOneChange maps a change to keys that repeat.
func TestManyKeysOfOneChange(t *testing.T) {
	c := New("test", succeed, Options{})
	w := newWatch(newPodCache(newServer()), func(p *corev1.Pod, enqueue func(object.Key)) {
		for i := range 3 * maxKeptKeys {
			enqueue(key(strconv.Itoa(i % 2000)))
		}
	})
	w.handle(c, object.Delta[*corev1.Pod]{Type: object.Updated, Old: pod("a", ""), Object: pod("a", "")}, nil)
	if st := c.Stats().Queue; st.Depth != 2000 || st.Adds != 2000 {
		t.Errorf("%+v", st)
	}
	if cap(w.keys) > maxKeptKeys {
		t.Errorf("room for %d keys is kept", cap(w.keys))
	}
}
