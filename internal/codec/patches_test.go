package codec_test

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/wire/patch"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// encodeAll encodes objects.
func encodeAll[T object.Object](t testing.TB, c *codec.Objects[T], objects []T) (all [][]byte) {
	t.Helper()
	for _, o := range objects {
		data, err := c.Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// checkPatch makes a patch, and applies it to the base, encoded and decoded.
func checkPatch(t testing.TB, c *codec.Objects[*corev1.Pod], base, data []byte, want *corev1.Pod) {
	t.Helper()
	p, ok := c.Diff([]byte("before"), base, data, len(data))
	if !ok || string(p[:6]) != "before" {
		t.Errorf("there is no patch of a similar pod")
		return
	}
	p = p[6:]
	if got, err := patch.Apply(nil, base, p, len(data)); err != nil || string(got) != string(data) {
		t.Errorf("the patch makes other bytes: %v", err)
	}
	was, err := c.DecodeBase(base)
	if err != nil {
		t.Error(err)
		return
	}
	before := was.DeepCopy()
	got, err := c.DecodePatch(was, p)
	if err != nil || !equalWithNil(got, want) {
		t.Errorf("the patch makes another pod: %v", err)
	}
	if !equalWithNil(was, before) {
		t.Error("the base has changed")
	}
}

// TestPatchesConcurrently makes patches of pods, with a kind and without, from several goroutines.
func TestPatchesConcurrently(t *testing.T) {
	for _, kind := range []metav1.TypeMeta{{}, {APIVersion: "v1", Kind: "Pod"}} {
		c, pods := newCodec[*corev1.Pod](t), wiretest.Pods(60, 1)
		for _, pod := range pods {
			pod.TypeMeta = kind
		}
		all := encodeAll(t, c, pods)
		var users sync.WaitGroup
		for user := range 4 {
			users.Go(func() {
				for i := range all {
					checkPatch(t, c, all[(i+user*7)%len(all)], all[i], pods[i])
				}
			})
		}
		users.Wait()
	}
}

// TestPatchesAreOfOneKind has objects of one type that state several kinds.
func TestPatchesAreOfOneKind(t *testing.T) {
	c := newCodec[*metav1.PartialObjectMetadata](t)
	var objects []*metav1.PartialObjectMetadata
	for _, kind := range []string{"", "Pod", "Pods", "Node"} {
		objects = append(objects, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	}
	all := encodeAll(t, c, objects)
	for i, base := range all {
		for j, data := range all {
			if p, ok := c.Diff([]byte("before"), base, data, len(data)); ok != (i == j) || !ok && string(p) != "before" {
				t.Errorf("there is a patch of %q to %q: %t", objects[i].Kind, objects[j].Kind, ok)
			}
		}
	}
}

// TestPatchesAreShort requests patches of fewer bytes than they have.
func TestPatchesAreShort(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	all := encodeAll(t, c, wiretest.Pods(2, 1))
	p, ok := c.Diff(nil, all[0], all[1], len(all[1]))
	if !ok {
		t.Fatal("there is no patch")
	}
	for _, most := range []int{-1, 0, 1, len(p) - 1} {
		if got, ok := c.Diff([]byte("before"), all[0], all[1], most); ok || string(got) != "before" {
			t.Errorf("there is a patch of %d bytes, which was to have %d at most", len(got), most)
		}
	}
	if _, ok := c.Diff(nil, all[0], all[1], len(p)); !ok {
		t.Error("there is no patch of as many bytes as it has")
	}
}

// TestNoPatchesOfJSON has codecs that do not support patches.
func TestNoPatchesOfJSON(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "Any", "metadata": map[string]any{"name": "a"}}}
	noPatches(t, newCodec[*unstructured.Unstructured](t), u)
	noPatches(t, newCodec[*Widget](t), &Widget{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
}

func noPatches[T object.Object](t *testing.T, c *codec.Objects[T], o T) {
	t.Helper()
	data := encodeAll(t, c, []T{o})[0]
	if p, ok := c.Diff([]byte("before"), data, data, len(data)); ok || string(p) != "before" {
		t.Errorf("%T has a patch", o)
	}
	if _, err := c.DecodeBase(data); err == nil {
		t.Errorf("%T is a base", o)
	}
	if _, err := c.DecodePatch(o, []byte{0, 0}); err == nil {
		t.Errorf("%T is patched", o)
	}
}

// TestBrokenPatches has bytes that are neither encodings nor patches.
func TestBrokenPatches(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	pods := wiretest.Pods(2, 1)
	all := encodeAll(t, c, pods)
	p, _ := c.Diff(nil, all[0], all[1], len(all[1]))
	for n := range p {
		if o, err := c.DecodePatch(pods[0], p[:n]); err == nil || o != nil {
			t.Fatalf("a patch that is cut off at %d makes %v", n, o)
		}
	}
	if o, err := c.DecodePatch(nil, p); err == nil {
		t.Errorf("a patch of nothing makes %v", o)
	}
	for _, bad := range [][]byte{nil, {1}, {0}, all[0][:len(all[0])-1]} {
		if o, err := c.DecodeBase(bad); err == nil {
			t.Errorf("%d broken bytes are the base %v", len(bad), o)
		}
	}
	for _, bad := range [][]byte{nil, {1}, {0}} {
		for _, pair := range [][2][]byte{{bad, all[0]}, {all[0], bad}} {
			if _, ok := c.Diff(nil, pair[0], pair[1], 1<<20); ok {
				t.Errorf("there is a patch of %x", bad)
			}
		}
	}
	checkPatch(t, c, all[0], all[1], pods[1]) // the codec goes on
}
