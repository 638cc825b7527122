package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/internal/testseed"
)

// TestRandomWrites makes random writes to pods in reconciles, whose answers may be lost. Nobody else writes to the
// namespace, so each reconcile must find in its caches, which are late, what the server has. The random test of package
// controller has a scripted server, and more: restores, other writers, other clusters.
func TestRandomWrites(t *testing.T) {
	cp := plane(t)
	testseed.Each(t, 6, func(t *testing.T, seed uint64) {
		t.Parallel()
		w := newRandomWorld(t, cp.Config(), seed)
		st := w.run()
		if st.GateTimeouts > 0 {
			t.Errorf("%d timeouts", st.GateTimeouts)
		}
		t.Logf("%d waits, %d look-ups; the writes:\n%s", st.GateWaits, st.GateLookups, strings.Join(w.log, "\n"))
	})
}

const (
	randomReconciles = 12
	randomLate       = 400 * time.Millisecond
)

type randomWorld struct {
	*testing.T
	number    func(int) int
	config    *rest.Config
	plain     kubernetes.Interface
	tracked   kubernetes.Interface
	metadata  metadata.Interface
	namespace string
	caches    map[string]*tidings.SharedInformer[*corev1.Pod] // by their label selectors
	loses     atomic.Int32                                    // what becomes of the next write
	log       []string
}

// What becomes of a write.
const (
	answered int32 = iota
	answerLost
	neverSent
)

// lossy loses answers, or requests. The client cannot tell which.
func (w *randomWorld) lossy(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodGet || w.loses.Load() == answered:
			return next.RoundTrip(r)
		case w.loses.Load() == answerLost:
			if response, err := next.RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
		}
		return nil, io.ErrUnexpectedEOF
	})
}

func newRandomWorld(t *testing.T, config *rest.Config, seed uint64) *randomWorld {
	config.QPS = -1
	w := &randomWorld{
		T: t, config: config, number: rand.New(rand.NewPCG(seed, 0)).IntN, plain: clientFor(t, config),
		caches: map[string]*tidings.SharedInformer[*corev1.Pod]{},
	}
	w.namespace = newNamespace(t, w.plain)
	tracked := rest.CopyConfig(config)
	tracked.Wrap(w.lossy)
	tracked.Wrap(controller.TrackWrites)
	w.tracked, w.metadata = clientFor(t, tracked), metadata.NewForConfigOrDie(tracked)
	slow := rest.CopyConfig(config)
	slow.Wrap(latewatch.Wrap(randomLate))
	f := startFactory(t, slow, tidings.Options{Logger: slog.New(slog.DiscardHandler)})
	for _, labels := range []string{"", "role=own"} {
		w.caches[labels] = informer[*corev1.Pod](t, f, tidings.Scope{Namespaces: []string{w.namespace}, Labels: labels})
	}
	return w
}

// run reconciles one key again and again.
func (w *randomWorld) run() controller.Stats {
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	reconciles := make(chan struct{})
	c := controller.New("random", func(reconcile context.Context, _ tidings.Key) (controller.Result, error) {
		w.check()
		for range 1 + w.number(3) {
			w.write(reconcile)
		}
		select {
		case reconciles <- struct{}{}:
		case <-ctx.Done(): // a key comes back when what it has created was deleted unseen
		}
		return controller.Result{}, nil
	}, controller.Options{MaxGateWait: patience, Logger: slog.New(slog.DiscardHandler)})
	for _, cache := range w.caches {
		if err := cache.WaitForSync(w.Context()); err != nil {
			w.Fatal(err)
		}
		if err := controller.Use(c, cache); err != nil {
			w.Fatal(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			w.Error(err)
		}
	})
	for range randomReconciles {
		c.Enqueue(tidings.Key{Name: "key"})
		select {
		case <-reconciles:
		case <-time.After(patience):
			w.Fatal("the key is not reconciled")
		}
	}
	st := c.Stats()
	cancel()
	running.Wait()
	return st
}

// check compares the caches with the server. An object that is being deleted may be there in an earlier state of its end,
// which is all that a deletion of a collection or an eviction promises.
func (w *randomWorld) check() {
	for labels, cache := range w.caches {
		list, err := w.plain.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: labels})
		if err != nil {
			w.Error(err)
			return
		}
		want, got := map[types.UID]string{}, map[types.UID]string{}
		for i := range list.Items {
			want[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
		for _, o := range cache.Snapshot().All() {
			got[o.UID] = o.ResourceVersion
			if now, ok := want[o.UID]; ok && o.DeletionTimestamp != nil {
				got[o.UID] = now
			}
		}
		if !maps.Equal(got, want) {
			w.Errorf("the cache of %q has %v, the server %v; the writes:\n%s", labels, got, want, strings.Join(w.log, "\n"))
		}
	}
}

// write makes one random write.
func (w *randomWorld) write(ctx context.Context) {
	loses := answered
	if w.number(4) == 0 {
		loses = answerLost + int32(w.number(2))
	}
	w.loses.Store(loses)
	what, err := w.writeTo(ctx, []string{"a", "b", "c"}[w.number(3)])
	w.loses.Store(answered)
	w.log = append(w.log, fmt.Sprintf("%s: %v (lost %d)", what, err, loses))
}

func (w *randomWorld) pod(name string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": w.role()}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if w.number(3) == 0 {
		p.Finalizers = []string{"example.com/x"}
	}
	return p
}

func (w *randomWorld) role() string { return []string{"own", "other"}[w.number(2)] }

func (w *randomWorld) writeTo(ctx context.Context, name string) (what string, err error) {
	c := w.tracked.CoreV1().Pods(w.namespace)
	patch := func(p string, sub ...string) error {
		if len(sub) == 0 && w.number(2) == 0 {
			c := w.metadata.Resource(pods).Namespace(w.namespace)
			return only(c.Patch(ctx, name, types.MergePatchType, []byte(p), metav1.PatchOptions{}))
		}
		return only(c.Patch(ctx, name, types.MergePatchType, []byte(p), metav1.PatchOptions{}, sub...))
	}
	switch w.number(12) {
	case 0, 1, 2:
		return "create " + name, only(c.Create(ctx, w.pod(name), metav1.CreateOptions{}))
	case 3:
		p := w.pod("")
		p.GenerateName = "g-"
		return "generate", only(c.Create(ctx, p, metav1.CreateOptions{}))
	case 4:
		role := w.role()
		return role + " " + name, patch(`{"metadata":{"labels":{"role":"` + role + `"}}}`)
	case 5:
		return "free " + name, patch(`{"metadata":{"finalizers":null}}`)
	case 6:
		return "delete " + name, c.Delete(ctx, name, metav1.DeleteOptions{})
	case 7:
		return "force " + name, c.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	case 8:
		return "evict " + name, c.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case 9:
		selector, how := []string{"", "role=own"}[w.number(2)], metav1.DeleteOptions{}
		if w.number(2) == 0 {
			how.GracePeriodSeconds = new(int64)
		}
		return "collection " + selector, c.DeleteCollection(ctx, how, metav1.ListOptions{LabelSelector: selector})
	case 10:
		return "status " + name, patch(`{"status":{"reason":"x"}}`, "status")
	}
	apply := applycorev1.Pod(name, w.namespace).WithLabels(map[string]string{"role": w.role()}).
		WithSpec(applycorev1.PodSpec().WithNodeName("n").
			WithContainers(applycorev1.Container().WithName("c").WithImage("i")))
	return "apply " + name, only(c.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "random", Force: true}))
}
