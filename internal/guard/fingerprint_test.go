package engine

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/object"
)

func samplePod() *corev1.Pod {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "1", "b": "2", "c": "3"}, DeletionTimestamp: &now},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		}}}},
	}
}

func TestFingerprintSeesEveryWrite(t *testing.T) {
	for name, write := range map[string]func(p *corev1.Pod){
		"a string":        func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"a map's value":   func(p *corev1.Pod) { p.Labels["a"] = "2" },
		"a map's new key": func(p *corev1.Pod) { p.Labels["d"] = "" },
		"values swapped":  func(p *corev1.Pod) { p.Labels["a"], p.Labels["b"] = "2", "1" },
		"an element":      func(p *corev1.Pod) { p.Spec.Containers[0].Image = "i" },
		"a longer list":   func(p *corev1.Pod) { p.Finalizers = []string{""} },
		"a pointer":       func(p *corev1.Pod) { p.Spec.Priority = new(int32) },
		"a time":          func(p *corev1.Pod) { p.DeletionTimestamp.Time = p.DeletionTimestamp.Add(time.Second) },
		"a quantity": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("200m")
		},
		"one field to other": func(p *corev1.Pod) { p.Name, p.GenerateName = "", "x" },
	} {
		p := samplePod()
		before := fingerprint(p)
		if write(p); fingerprint(p) == before {
			t.Errorf("%s was written, and the fingerprint is the same", name)
		}
	}
}

func TestFingerprintOfTheSameIsTheSame(t *testing.T) {
	p := samplePod()
	before := fingerprint(p)
	for range 20 {
		if fingerprint(p) != before {
			t.Fatal("an object that nobody wrote to has two fingerprints")
		}
	}
	_ = p.Spec.Containers[0].Resources.Requests.Cpu().String() // caches its text
	if fingerprint(p) != before || fingerprint(p.DeepCopy()) != before {
		t.Error("what is the same for Kubernetes has another fingerprint")
	}
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "Widget", "spec": map[string]any{"n": int64(1), "f": 1.5, "l": []any{"a", nil, true}}}}
	was := fingerprint(u)
	u.Object["spec"].(map[string]any)["l"].([]any)[2] = false
	if fingerprint(u) == was {
		t.Error("a write to an unstructured object was not seen")
	}
}

func TestFingerprintOfWhatRefersToItself(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.Object["self"] = u.Object
	fingerprint(u) // returns
}

func TestAbsence(t *testing.T) {
	var a deletionTracker
	key := object.Key{Name: "x"}
	a.relisted("10")
	a.record(key, "20")
	for version, want := range map[string]bool{"9": true, "10": true, "19": true, "20": false, "21": false, "": false, "opaque": false} {
		if got := a.isStale(key, version); got != want {
			t.Errorf("version %q after the deletion at 20: %v, want %v", version, got, want)
		}
	}
	a.record(key, "30") // it was recreated meanwhile
	if !a.isStale(key, "29") || a.isStale(key, "30") {
		t.Error("the later deletion does not count")
	}
	a.record(key, "20") // a repeated event
	if !a.isStale(key, "29") {
		t.Error("a repeated deletion takes the place of a later one")
	}
	other := object.Key{Name: "other"}
	if a.isStale(other, "10") || !a.isStale(other, "9") {
		t.Error("only what is older than the list is proven absent by it")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 10 * rememberedDeletions {
		a.record(object.Key{Name: string(rune('a' + rnd.IntN(26))), Namespace: string(rune(i))}, "30")
	}
	for i := range rememberedDeletions {
		a.record(object.Key{Name: "last", Namespace: strconv.Itoa(i)}, "30")
	}
	for i := range rememberedDeletions {
		if !a.isStale(object.Key{Name: "last", Namespace: strconv.Itoa(i)}, "29") {
			t.Fatalf("the %dth of the last %d deletions is forgotten", i, rememberedDeletions)
		}
	}
	if len(a.deleted) > rememberedDeletions || len(a.order) > rememberedDeletions {
		t.Errorf("%d deletions are remembered, want at most %d", len(a.deleted), rememberedDeletions)
	}
	again := object.Key{Name: "again"}
	for i := range rememberedDeletions + 1 {
		if i == 0 || i == rememberedDeletions-1 {
			a.record(again, "30")
		}
		a.record(object.Key{Name: "after", Namespace: strconv.Itoa(i)}, "30")
	}
	if !a.isStale(again, "29") {
		t.Error("the last deletion of an object that was deleted twice is forgotten with the first")
	}
	a.relisted("40")
	if a.isStale(key, "41") || len(a.deleted) != 0 {
		t.Error("a list does not start over")
	}
}

// TestFingerprintIsBounded uses an object that refers to itself in two ways, so that a walk would never end, and a large Secret.
func TestFingerprintIsBounded(t *testing.T) {
	type node struct{ Left, Right *node }
	n := &node{}
	n.Left, n.Right = n, n
	if sum := fingerprint(n); sum != 0 {
		t.Errorf("the fingerprint of what has no end is %x, want none", sum)
	}
	secret := &corev1.Secret{Data: map[string][]byte{"a": make([]byte, 1<<20)}}
	before := fingerprint(secret)
	secret.Data["a"][1<<19] = 1
	if fingerprint(secret) == before {
		t.Error("a write to a large secret was not seen")
	}
}

func BenchmarkFingerprint(b *testing.B) {
	p := samplePod()
	for b.Loop() {
		fingerprint(p)
	}
}

// TestFingerprintOfOtherKinds: users' types may have unsigned numbers, and kinds without a fingerprint.
func TestFingerprintOfOtherKinds(t *testing.T) {
	type other struct {
		Small uint8
		Large uint64
		Call  func()
		Array [2]bool
	}
	base := other{Small: 1, Large: 2}
	for name, o := range map[string]other{"small": {Small: 2, Large: 2}, "large": {Small: 1, Large: 3}, "array": {Small: 1, Large: 2, Array: [2]bool{false, true}}} {
		if fingerprint(&o) == fingerprint(&base) {
			t.Errorf("%s: a write was not seen", name)
		}
	}
	called := base
	called.Call = func() {}
	if fingerprint(&called) != fingerprint(&base) {
		t.Error("a function counts")
	}
}
