package promises_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// report is a custom resource with a Go type.
type report struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              reportSpec `json:"spec,omitempty"`
}

type reportSpec struct {
	Text   string            `json:"text,omitempty"`
	Counts []int64           `json:"counts,omitempty"`
	Shares map[string]string `json:"shares,omitempty"`
	Ratio  *float64          `json:"ratio,omitempty"`
	When   metav1.Time       `json:"when,omitempty"`
}

func (r *report) DeepCopyObject() runtime.Object {
	c := *r
	r.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Counts = append([]int64(nil), r.Spec.Counts...)
	if r.Spec.Shares != nil {
		c.Spec.Shares = map[string]string{}
		for k, v := range r.Spec.Shares {
			c.Spec.Shares[k] = v
		}
	}
	if r.Spec.Ratio != nil {
		ratio := *r.Spec.Ratio
		c.Spec.Ratio = &ratio
	}
	return &c
}

var reportResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "reports"}

// TestFoldedHandlersHearTheSame runs informers with and without a budget against one server, for
// all forms of objects: their handlers get exactly the same notifications.
func TestFoldedHandlersHearTheSame(t *testing.T) {
	pods := tidings.Scope{Resource: podResource, Kind: "Pod"}
	reports := tidings.Scope{Resource: reportResource, Kind: "Report"}
	for name, test := range map[string]func(*formsServer){
		"typed protobuf":    func(s *formsServer) { compareForms[pod](s, tidings.Scope{}) },
		"metadata":          func(s *formsServer) { compareForms[*metav1.PartialObjectMetadata](s, pods) },
		"unstructured":      func(s *formsServer) { compareForms[*unstructured.Unstructured](s, pods) },
		"typed JSON":        func(s *formsServer) { compareForms[*report](s, reports) },
		"unstructured JSON": func(s *formsServer) { compareForms[*unstructured.Unstructured](s, reports) },
	} {
		t.Run(name, func(t *testing.T) {
			testseed.Each(t, 1, func(t *testing.T, seed uint64) {
				synctest.Test(t, func(t *testing.T) {
					s := &formsServer{t: t, seed: seed, foldedServer: foldedServer{
						Rand: rand.New(rand.NewPCG(seed, 0)), server: tidingstest.NewServer(t, tidingstest.ServerOptions{}),
					}}
					s.server.AddResource(reportResource, "Report")
					test(s)
				})
			})
		})
	}
}

// formsServer is a server of pods and reports with random writes.
type formsServer struct {
	foldedServer
	t      *testing.T
	seed   uint64
	backup tidingstest.Snapshot
}

func (s *formsServer) writeBoth() {
	s.write()
	key := s.key()
	o := s.report(key)
	switch _, exists := s.server.Versions(reportResource)[key]; {
	case !exists:
		s.server.Create(o)
	case s.IntN(4) == 0:
		s.server.Delete(o)
	default:
		s.server.Update(o)
	}
}

func (s *formsServer) report(key object.Key) *unstructured.Unstructured {
	spec := map[string]any{"text": strings.Repeat(key.String()+" ", 20)}
	if s.IntN(2) == 0 {
		spec["counts"] = []any{int64(1), s.Int64(), int64(-7)}[:s.IntN(4)]
	}
	if s.IntN(2) == 0 {
		spec["shares"] = []map[string]any{{}, {"a": "ü\u2028<&>"}, {"a": "1", "b": ""}}[s.IntN(3)]
	}
	if s.IntN(3) == 0 {
		spec["ratio"] = []float64{0.1, 1e21, -3, 2.5e-9}[s.IntN(4)]
	}
	if s.IntN(3) == 0 {
		spec["when"] = "2026-01-02T03:04:05Z"
	}
	if s.IntN(3) == 0 {
		spec["unknown"] = []any{nil, map[string]any{}, []any{}, true, int64(s.IntN(100)), 1.5}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion("example.com/v1")
	o.SetKind("Report")
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetLabels(map[string]string{"write": fmt.Sprint(s.writes)})
	return o
}

// step writes, sometimes while the server is down, which then forgets its history or goes back to
// an earlier state, and waits until all handlers were notified.
func (s *formsServer) step() {
	down := s.IntN(4)
	if down < 2 {
		s.server.Stop()
	}
	for range 1 + s.IntN(20) {
		s.writeBoth()
	}
	switch down {
	case 0:
		s.server.Compact()
	case 1:
		if s.IntN(2) == 0 {
			s.server.Restore(s.backup)
		} else {
			s.backup = s.server.Snapshot()
		}
	}
	if down < 2 {
		s.server.Start()
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
}

// hearing is an informer whose handlers record their notifications.
type hearing[T object.Object] struct {
	inf   *tidings.SharedInformer[T]
	heard [2][]object.Delta[T]
}

func (h *hearing[T]) addHandler(t *testing.T, n int) {
	t.Helper()
	_, err := h.inf.AddHandler(tidings.DeltaFunc[T](func(d object.Delta[T]) {
		for _, o := range []*T{&d.Object, &d.Old} {
			if !object.IsNil(*o) {
				*o = (*o).DeepCopyObject().(T)
			}
		}
		h.heard[n] = append(h.heard[n], d)
	}), tidings.HandlerOptions{Policy: tidings.Unbounded, Resync: time.Duration(n) * 15 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
}

func compareForms[T object.Object](s *formsServer, scope tidings.Scope) {
	t := s.t
	for range 40 {
		s.writeBoth()
	}
	s.backup = s.server.Snapshot()
	var all []*hearing[T]
	noWatchList := s.IntN(2) == 0
	for _, budget := range []int64{0, 1, 150_000} {
		f, err := tidings.NewFactory(s.server.Config(), tidings.Options{MemoryBudget: budget, NoWatchList: noWatchList, Seed: s.seed | 1, PageSize: 20})
		if err != nil {
			t.Fatal(err)
		}
		h := &hearing[T]{}
		if h.inf, err = tidings.Informer[T](f, scope); err != nil {
			t.Fatal(err)
		}
		h.inf.AddIndex("write", func(o T) []string { return []string{o.GetLabels()["write"]} })
		h.addHandler(t, 0)
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	time.Sleep(5 * time.Minute)
	for i := range 10 {
		if i == 5 {
			gc() // or all that is folded is still open
			for _, h := range all {
				h.addHandler(t, 1)
			}
		}
		s.step()
	}
	for _, h := range all[1:] {
		compareStores(t, all[0].inf, h.inf)
		for n := range h.heard {
			compareHeard(t, all[0].heard[n], h.heard[n])
		}
	}
	if m := all[1].inf.Status().Memory; m.Folded == 0 || m.Opens == 0 {
		t.Errorf("%+v, want folded objects that were opened", m)
	}
	for _, h := range all {
		if err := h.inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if m := h.inf.Status().Memory; m.Used != 0 {
			t.Errorf("%+v after the end", m)
		}
	}
}

// TestObjectsWithoutAKindStayOpen has a transform that removes the kind, without which unstructured
// objects cannot be decoded.
func TestObjectsWithoutAKindStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &formsServer{t: t, foldedServer: foldedServer{
			Rand: rand.New(rand.NewPCG(1, 0)), server: tidingstest.NewServer(t, tidingstest.ServerOptions{}),
		}}
		s.server.AddResource(reportResource, "Report")
		key := object.Key{Namespace: "a", Name: "b"}
		s.server.Create(s.report(key))
		f, err := tidings.NewFactory(s.server.Config(), tidings.Options{MemoryBudget: 1})
		if err != nil {
			t.Fatal(err)
		}
		inf, err := tidings.Informer[*unstructured.Unstructured](f, tidings.Scope{Resource: reportResource, Kind: "Report"})
		if err != nil {
			t.Fatal(err)
		}
		err = inf.SetTransform(func(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			delete(o.Object, "kind")
			return o, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Start(t.Context()), inf.WaitForSync(t.Context())); err != nil {
			t.Fatal(err)
		}
		gc() // or it is open because something still holds it
		if o, ok := inf.Get(key); !ok || o.GetKind() != "" {
			t.Errorf("got %v, %t", o, ok)
		}
		if m := inf.Status().Memory; m.Unfoldable != 1 || !strings.Contains(m.Reason, "it has no kind") {
			t.Errorf("%+v", m)
		}
	})
}

func gc() {
	goruntime.GC()
	goruntime.GC()
}

func compareStores[T object.Object](t *testing.T, want, got *tidings.SharedInformer[T]) {
	t.Helper()
	if got.Snapshot().Len() != want.Snapshot().Len() {
		t.Errorf("%d objects, want %d", got.Snapshot().Len(), want.Snapshot().Len())
	}
	for key, o := range want.Snapshot().All() {
		if other, ok := got.Get(key); !ok || !reflect.DeepEqual(other, o) {
			t.Errorf("the store has %v, want %v", other, o)
		}
	}
}

func compareHeard[T object.Object](t *testing.T, want, got []object.Delta[T]) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("delta %d is\n%+v\nwant\n%+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d deltas, want %d", len(got), len(want))
	}
}
