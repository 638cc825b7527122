package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

// The objects: namespaces, and ConfigMaps in each.
const namespaces, perNamespace = 30, 5

// observer changes ConfigMaps, and sees when each change was reconciled.
type observer struct {
	client  kubernetes.Interface
	factory *tidings.Factory

	mu      sync.Mutex
	pending map[tidings.Key]revision
	slowest time.Duration
	writes  int           // of Leases
	changed chan struct{} // closed and replaced when nothing is pending
}

type revision struct {
	number string
	at     time.Time
}

// observe makes the objects, and starts to watch them.
func observe(ctx context.Context, config *rest.Config) (*observer, error) {
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	o := &observer{client: client, pending: map[tidings.Key]revision{}, changed: make(chan struct{})}
	if err := o.create(ctx); err != nil {
		return nil, err
	}
	if o.factory, err = tidings.NewFactory(config, tidings.Options{}); err != nil {
		return nil, err
	}
	held, err := tidings.Informer[*corev1.ConfigMap](o.factory, tidings.Scope{Labels: "demo"})
	if err != nil {
		return nil, err
	}
	if _, err := held.HandleDeltas("demo", o.see); err != nil {
		return nil, err
	}
	leases, err := tidings.Informer[*coordinationv1.Lease](o.factory, tidings.Scope{Namespaces: []string{"default"}})
	if err != nil {
		return nil, err
	}
	if _, err := leases.HandleDeltas("demo", o.seeLease); err != nil {
		return nil, err
	}
	if err := o.factory.Start(ctx); err != nil {
		return nil, err
	}
	if err := o.factory.WaitForSync(ctx); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *observer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = o.factory.Shutdown(ctx) // nothing can keep it from ending
}

func (o *observer) create(ctx context.Context) error {
	for n := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("team-", n)}}
		if _, err := o.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
		for i := range perNamespace {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("map-", i), Labels: map[string]string{"demo": "true"},
				Annotations: map[string]string{revisionKey: "0", reconciledKey: "0"},
			}}
			if _, err := o.client.CoreV1().ConfigMaps(ns.Name).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// see notes which revision was reconciled.
func (o *observer) see(d tidings.Delta[*corev1.ConfigMap]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	want, ok := o.pending[d.Key]
	if !ok || d.Object == nil || d.Object.Annotations[reconciledKey] != want.number {
		return
	}
	o.slowest = max(o.slowest, time.Since(want.at))
	if delete(o.pending, d.Key); len(o.pending) == 0 {
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

func (o *observer) seeLease(d tidings.Delta[*coordinationv1.Lease]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !d.Initial {
		o.writes++
	}
}

// change changes random objects for a while, fifty times a second, and waits until all changes are reconciled. An object
// whose last change is not reconciled yet is not changed again.
func (o *observer) change(ctx context.Context, what string, lasts time.Duration) (phase, error) {
	p, began := phase{what: what}, time.Now()
	o.mu.Lock()
	o.slowest, o.writes = 0, 0
	o.mu.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < lasts {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return p, ctx.Err()
		}
		changed, err := o.changeOne(ctx)
		if err != nil {
			return p, err
		}
		if changed {
			p.changes++
		}
	}
	if err := o.settle(ctx); err != nil {
		return p, fmt.Errorf("%s: %w", what, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p.slowest, p.writes = o.slowest, float64(o.writes)/time.Since(began).Seconds()
	return p, nil
}

func (o *observer) changeOne(ctx context.Context) (bool, error) {
	key := tidings.Key{
		Namespace: fmt.Sprint("team-", rand.IntN(namespaces)), Name: fmt.Sprint("map-", rand.IntN(perNamespace)),
	}
	now := time.Now()
	number := fmt.Sprint(now.UnixNano())
	o.mu.Lock()
	_, busy := o.pending[key]
	if !busy {
		o.pending[key] = revision{number, now}
	}
	o.mu.Unlock()
	if busy {
		return false, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, revisionKey, number)
	objects := o.client.CoreV1().ConfigMaps(key.Namespace)
	_, err := objects.Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return true, err
}

// settle waits until all changes are reconciled.
func (o *observer) settle(ctx context.Context) error {
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		o.mu.Lock()
		left, changed := len(o.pending), o.changed
		o.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("%d changes were left out", left)
		}
	}
}
