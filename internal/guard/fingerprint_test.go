package guard

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		"another string":  func(p *corev1.Pod) { p.Spec.Containers[0].Name = "d" },
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
		"a false":            func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"an empty list":      func(p *corev1.Pod) { p.Finalizers = []string{} },
		"a number":           func(p *corev1.Pod) { p.Generation = 1 << 56 },
		"one field to other": func(p *corev1.Pod) { p.Name, p.GenerateName = "", "x" },
	} {
		p := samplePod()
		before := Fingerprint(p)
		if write(p); Fingerprint(p) == before {
			t.Errorf("%s was written, and the fingerprint is the same", name)
		}
	}
}

func TestFingerprintOfTheSameIsTheSame(t *testing.T) {
	p := samplePod()
	before := Fingerprint(p)
	for range 20 {
		if Fingerprint(p) != before {
			t.Fatal("an object that nobody wrote to has two fingerprints")
		}
	}
	_ = p.Spec.Containers[0].Resources.Requests.Cpu().String() // caches its text
	if Fingerprint(p) != before || Fingerprint(p.DeepCopy()) != before {
		t.Error("what is the same for Kubernetes has another fingerprint")
	}
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "Widget", "spec": map[string]any{"n": int64(1), "f": 1.5, "l": []any{"a", nil, true}}}}
	was := Fingerprint(u)
	u.Object["spec"].(map[string]any)["l"].([]any)[2] = false
	if Fingerprint(u) == was {
		t.Error("a write to an unstructured object was not seen")
	}
}

// TestFingerprintOfCaches: what a type keeps in unexported fields of something that is zero does not count.
func TestFingerprintOfCaches(t *testing.T) {
	type limits struct{ CPU, Memory resource.Quantity }
	object := &struct{ Limits, Requests limits }{}
	before := Fingerprint(object)
	_ = object.Limits.CPU.String() // caches its text
	if Fingerprint(object) != before {
		t.Error("a cache counts")
	}
	object.Limits.Memory = resource.MustParse("1")
	if Fingerprint(object) == before {
		t.Error("a write was not seen")
	}
	lazy := &struct {
		cache string
		Name  string
	}{"", "a"}
	before = Fingerprint(lazy)
	if lazy.cache = "cached"; Fingerprint(lazy) != before {
		t.Error("a cache in the first field counts")
	}
	if Fingerprint(&struct{}{}) == 0 {
		t.Error("nothing is too much")
	}
}

func TestFingerprintOfWhatRefersToItself(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.Object["self"] = u.Object
	Fingerprint(u) // returns
}

// TestFingerprintIsBounded uses an object that refers to itself in two ways, so that a walk would
// never end, and a large Secret.
func TestFingerprintIsBounded(t *testing.T) {
	type node struct{ Left, Right *node }
	n := &node{}
	n.Left, n.Right = n, n
	if sum := Fingerprint(n); sum != 0 {
		t.Errorf("the fingerprint of what has no end is %x, want none", sum)
	}
	secret := &corev1.Secret{Data: map[string][]byte{"a": make([]byte, 1<<20)}}
	before := Fingerprint(secret)
	secret.Data["a"][1<<19] = 1
	if Fingerprint(secret) == before {
		t.Error("a write to a large secret was not seen")
	}
}

func BenchmarkFingerprint(b *testing.B) {
	p := samplePod()
	for b.Loop() {
		Fingerprint(p)
	}
}

// TestFingerprintOfOtherKinds: users' types may have unsigned numbers, and kinds without a fingerprint.
func TestFingerprintOfOtherKinds(t *testing.T) {
	type named struct {
		Name  string
		Count int
	}
	type other struct {
		Small uint8
		Large uint64
		Call  func()
		Array [2]bool
		Named map[string]named
	}
	base := other{Small: 1, Large: 2}
	for name, o := range map[string]other{"small": {Small: 2, Large: 2}, "large": {Small: 1, Large: 3}, "array": {Small: 1, Large: 2, Array: [2]bool{false, true}}} {
		if Fingerprint(&o) == Fingerprint(&base) {
			t.Errorf("%s: a write was not seen", name)
		}
	}
	values := map[string]uint64{}
	for name, v := range map[string]named{"a": {"a", 1}, "b": {"b", 1}, "two": {"a", 2}} { // has no address
		values[name] = Fingerprint(&other{Named: map[string]named{"x": v}})
	}
	if values["a"] == values["b"] || values["a"] == values["two"] {
		t.Errorf("a write to a map's value was not seen: %x", values)
	}
	called := base
	called.Call = func() {}
	if Fingerprint(&called) != Fingerprint(&base) {
		t.Error("a function counts")
	}
}
