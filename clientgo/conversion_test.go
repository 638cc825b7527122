package clientgo

import (
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
)

func toMetadata(held tidings.Object) (tidings.Object, error) {
	pod := held.(*corev1.Pod)
	return &metav1.PartialObjectMetadata{ObjectMeta: *pod.ObjectMeta.DeepCopy()}, nil
}

func podsNamed(names ...string) (pods []*corev1.Pod) {
	for _, name := range names {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
	}
	return pods
}

// mustShow returns what c shows of an object.
func mustShow(t *testing.T, c *conversion, held tidings.Object) tidings.Object {
	t.Helper()
	obj, err := c.of(held)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// len returns the number of objects that c knows somebody to hold.
func (c *conversion) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.made)
}

// collected waits until c knows of n objects.
func collected(t *testing.T, c *conversion, n int) {
	t.Helper()
	for began := time.Now(); c.len() != n; runtime.GC() {
		if time.Since(began) > time.Minute {
			t.Fatalf("it knows of %d objects, want %d", c.len(), n)
		}
	}
}

// TestConversionForgetsWhatNobodyHolds, and the objects it was made from.
func TestConversionForgetsWhatNobodyHolds(t *testing.T) {
	c := newConversion(toMetadata)
	pods := podsNamed("x", "y", "z")
	kept := mustShow(t, c, pods[0])
	for _, pod := range pods[1:] {
		mustShow(t, c, pod)
	}
	collected(t, c, 1)
	if mustShow(t, c, pods[0]) != kept {
		t.Error("what somebody holds was made again")
	}
	runtime.KeepAlive(kept)
	collected(t, c, 0)
	if c.made != nil {
		t.Error("an empty map is kept")
	}
	if again := mustShow(t, c, pods[0]); again.GetName() != "x" {
		t.Errorf("made %v", again)
	}
}

// TestConversionKeepsWhatWasMadeAnew: what a collected object leaves behind may be dropped after another was made.
func TestConversionKeepsWhatWasMadeAnew(t *testing.T) {
	c := newConversion(toMetadata)
	pod := podsNamed("x")[0]
	made := mustShow(t, c, pod)
	c.drop(pod)
	if c.len() != 1 || mustShow(t, c, pod) != made {
		t.Error("an object that is held was forgotten")
	}
	if other, _ := toMetadata(pod); c.keep(pod, other) != made {
		t.Error("two goroutines have different objects")
	}
}
