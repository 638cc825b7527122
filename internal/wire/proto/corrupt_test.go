package proto

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestStrayWritesDoNotSpread makes forbidden writes somewhere inside decoded objects of every type.
// Objects decoded later, both other objects and further versions, must not show them.
func TestStrayWritesDoNotSpread(t *testing.T) {
	seed := testseed.Seed(t)
	for i, typ := range registered() {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			filler := newFiller(int64(seed>>1) + int64(i))
			for range max(1, *objects/2) {
				obj := newGenerated(typ)
				filler.Fill(obj)
				if err := writeAndDecode(rng, obj); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// writeAndDecode decodes obj repeatedly, and each time writes to the result.
func writeAndDecode(rng *rand.Rand, obj generated) error {
	typ := reflect.TypeOf(obj)
	d, err := newUntyped(typ, wire.Options{})
	if err != nil {
		return err
	}
	for i := range 30 {
		if o, ok := obj.(metav1.Object); ok {
			o.SetUID([]types.UID{"one", "another"}[rng.IntN(2)])
		}
		data, err := obj.Marshal()
		if err != nil {
			return err
		}
		got, err := decodeAny(d, bytes.Clone(data))
		if err != nil {
			return err
		}
		want, err := oracle(typ, data)
		if err != nil {
			return err
		}
		if err := same(got, want); err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
		for range rng.IntN(3) {
			writeInto(rng, reflect.ValueOf(got))
		}
	}
	return nil
}

// writeInto changes something that v leads to, in place.
func writeInto(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			writeInto(rng, v.Elem())
		}
	case reflect.Struct:
		if _, ok := v.Addr().Interface().(*metav1.Time); ok || v.NumField() == 0 {
			vary(rng, v)
			return
		}
		if f := v.Field(rng.IntN(v.NumField())); f.CanSet() {
			writeInto(rng, f)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			writeInto(rng, v.Index(rng.IntN(v.Len())))
		}
	default:
		vary(rng, v)
	}
}

// TestCorruptPartIsReported writes to one shared part after another; each must be reported by name, once.
func TestCorruptPartIsReported(t *testing.T) {
	for field, write := range map[string]func(*corev1.Pod){
		"metadata.labels":                    func(p *corev1.Pod) { p.Labels["a"] = "b" },
		"metadata.ownerReferences":           func(p *corev1.Pod) { p.OwnerReferences[0].Name = "b" },
		"spec.nodeSelector":                  func(p *corev1.Pod) { delete(p.Spec.NodeSelector, "disk") },
		"spec.tolerations":                   func(p *corev1.Pod) { *p.Spec.Tolerations[0].TolerationSeconds = 1 << 20 },
		"spec.terminationGracePeriodSeconds": func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds++ },
		"spec.securityContext":               func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroups[1] = 7 },
		"spec.containers.resources.limits": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("9")
		},
		"spec.containers.env.valueFrom":   func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "b" },
		"spec.containers.securityContext": func(p *corev1.Pod) { *p.Spec.Containers[0].SecurityContext.Privileged = true },
	} {
		t.Run(field, func(t *testing.T) {
			var got []string
			d := newPodDecoderWith(t, wire.Options{OnStrayWrite: func(field string) { got = append(got, field) }})
			p := sharedPod()
			next := func(name string) *corev1.Pod {
				p.UID, p.Name = types.UID(name), name
				p.Spec.Containers[0].Image = name // so that the list of containers is not shared as a whole
				p.Spec.Containers[0].Env[0].Name = name
				return decodePod(t, d, p)
			}
			var last *corev1.Pod
			for i := range 200 {
				last = next(fmt.Sprint("n", i))
			}
			write(last)
			for i := range 10 {
				if err := same(next(fmt.Sprint("o", i)), p); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Contains(got, field) || d.Stats().Corrupted != uint64(len(got)) {
				t.Errorf("reported were %q, want %s", got, field)
			}
			before := len(got)
			next("last")
			if len(got) != before {
				t.Errorf("reported again: %q", got[before:])
			}
		})
	}
}

// sharedPod returns a pod with every kind of shared part.
func sharedPod() *corev1.Pod {
	seconds, yes := int64(30), false
	p := wiretest.Pods(1, 1)[0]
	p.Labels = map[string]string{"app": "a"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "u"}}
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	p.Spec.TerminationGracePeriodSeconds = &seconds
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", TolerationSeconds: new(int64(5000))}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	p.Spec.Containers = []corev1.Container{{
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		},
		Env: []corev1.EnvVar{
			{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "a"}}},
		},
		SecurityContext: &corev1.SecurityContext{Privileged: &yes, ReadOnlyRootFilesystem: &yes},
	}}
	p.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
	return p
}

// TestSpoiltSpecIsDecodedAgain: the spec of the previous version is reused if its bytes are
// unchanged, but not if somebody has written to it.
func TestSpoiltSpecIsDecodedAgain(t *testing.T) {
	for name, write := range map[string]func(*corev1.PodSpec){
		"a field":         func(s *corev1.PodSpec) { s.NodeName = "other" },
		"an element":      func(s *corev1.PodSpec) { s.Containers[0].Image = "other" },
		"deep down":       func(s *corev1.PodSpec) { s.Volumes[0].Name = "other" },
		"a map":           func(s *corev1.PodSpec) { s.NodeSelector["disk"] = "other" },
		"a map's entries": func(s *corev1.PodSpec) { s.NodeSelector["more"] = "other" },
		"a pointer":       func(s *corev1.PodSpec) { s.SecurityContext = nil },
	} {
		t.Run(name, func(t *testing.T) {
			d, p := newPodDecoder(t), sharedPod()
			got := decodePod(t, d, p)
			write(&got.Spec)
			p.ResourceVersion += "1"
			if err := same(decodePod(t, d, p), p); err != nil {
				t.Error(err)
			}
			hits := d.d.stats.Hits
			p.ResourceVersion += "1"
			if err := same(decodePod(t, d, p), p); err != nil || d.d.stats.Hits != hits+1 {
				t.Errorf("the version after that: %v, %d specs taken over", err, d.d.stats.Hits-hits)
			}
		})
	}
}

// TestExpansionIsBounded decodes few bytes that would take much memory.
func TestExpansionIsBounded(t *testing.T) {
	const n = 1 << 20
	nested := func(path ...byte) []byte {
		b := bytes.Repeat([]byte{path[len(path)-1]<<3 | bytesWire, 0}, n)
		for _, num := range slices.Backward(path[:len(path)-1]) {
			b = slices.Concat(protowire.AppendVarint([]byte{num<<3 | bytesWire}, uint64(len(b))), b)
		}
		return b
	}
	for name, data := range map[string][]byte{
		"empty containers":         nested(2, 2),
		"empty volumes":            nested(2, 1),
		"empty container statuses": nested(3, 8),
		"one empty run after each": bytes.Repeat([]byte{2<<3 | bytesWire, 2, 2<<3 | bytesWire, 0}, n),
	} {
		t.Run(name, func(t *testing.T) {
			for _, opts := range []wire.Options{{}, {NoSharing: true}, keeping} {
				d := newPodDecoderWith(t, opts)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := d.Decode(data)
				runtime.ReadMemStats(&after)
				if e, ok := errors.AsType[*wire.ExpansionError](err); !ok || e.Size != len(data) {
					t.Errorf("got %v", err)
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > 2*uint64(wire.Allowance(len(data))) {
					t.Errorf("%d bytes took %d", len(data), took)
				}
				decodePod(t, d, sharedPod()) // the decoder still works
			}
		})
	}
}

// TestLargeObjectsAreAllowed decodes an object with long lists of nearly empty elements.
func TestLargeObjectsAreAllowed(t *testing.T) {
	pod := sharedPod()
	for i := range 20_000 {
		pod.Spec.Volumes = append(
			pod.Spec.Volumes,
			corev1.Volume{
				Name:         fmt.Sprint("v", i),
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			},
		)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
	}
	if err := same(decodePod(t, newPodDecoder(t), pod), pod); err != nil {
		t.Error(err)
	}
}

// TestPanicIsAnError corrupts the decoder's state.
func TestPanicIsAnError(t *testing.T) {
	d := newPodDecoder(t)
	data := marshalAll(t, []*corev1.Pod{sharedPod()})[0]
	pod, err := d.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	d.d.root.fields[3].sub = &message{
		messageType: new(messageType),
		fields:      []*field{1: nil, 2: {fieldForm: fieldForm{op: listOp, form: list}}},
	} // no type
	pod.UID = "another"
	_, err = d.Decoder.Decode(data, nil)
	if e, ok := errors.AsType[*wire.PanicError](err); !ok || !strings.Contains(string(e.Stack), "decoder") {
		t.Fatalf("got %v", err)
	}
	if got, err := d.Decoder.Decode(data, nil); err != nil || got.Name != pod.Name || d.Stats().Objects != 2 {
		t.Errorf("after the panic: %v", err)
	}
}

// TestDecoderKeepsNothingAlive: remembered versions hold no objects.
func TestDecoderKeepsNothingAlive(t *testing.T) {
	d := newPodDecoder(t)
	p := sharedPod()
	decodePod(t, d, p)
	p.ResourceVersion += "1"
	gone := weak.Make(decodePod(t, d, p))
	clear(d.last)
	runtime.GC()
	if gone.Value() != nil {
		t.Error("an object that nobody else has is kept alive")
	}
	runtime.KeepAlive(d)
}

// TestVersionsAreForgotten: versions of deleted objects are dropped, and their number is bounded.
func TestVersionsAreForgotten(t *testing.T) {
	vs := newVersions(0)
	for key := range uint64(100_000) {
		vs.put(key, version{})
	}
	for i := range uint64(3 * (minUses + usesPerVersion*100_010)) {
		vs.put(i%10, version{held: 1})
	}
	if vs.len() > 20 {
		t.Errorf("%d versions are left of objects that were not seen for long", vs.len())
	}
	if v, ok := vs.get(3); !ok || v.held != 1 {
		t.Error("one that is in use is gone")
	}
	all := newVersions(0)
	for i := range uint64(50_000) {
		if all.put(i%5_000, version{held: int(i)}); i < 5_000 {
			continue
		}
		if v, ok := all.get((i + 1) % 5_000); !ok || v.held != int(i)-4_999 {
			t.Fatalf("%d: of objects that are all in use one is forgotten", i)
		}
	}
	const limit = 1 << 20
	small := newVersions(limit)
	for key := range uint64(100_000) {
		small.put(key, version{})
		if size := small.len() * versionBytes; size > limit/versionsShare+2*versionBytes {
			t.Fatalf("%d bytes are for versions, of %d for all", size, limit)
		}
	}
}

// TestCircles makes messages refer to themselves.
func TestCircles(t *testing.T) {
	d, err := New[*tree](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		d.Recheck()
		got, err := d.Decode(chain(30), nil)
		if err != nil {
			t.Fatal(err)
		}
		at, depth := got, 0
		for ; at.Name == "" && depth < 100; depth++ {
			if at.Other != nil {
				at = at.Other
			} else {
				at = &at.Children[0]
			}
		}
		if depth != 30 {
			t.Fatalf("depth %d", depth)
		}
		inner := got.Other
		if inner == nil {
			inner = got.Children[0].Other
		}
		inner.Other, inner.Children = inner, []tree{*inner, *inner}
	}
}
