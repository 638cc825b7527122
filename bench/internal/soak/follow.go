package soak

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
)

// follow is an informer, with a ledger of a handler's notifications.
type follow struct {
	name string
	// held returns the state of the store, and told that of a handler: versions by key.
	held, told func() map[tidings.Key]string
	// want lists the state of the server.
	want func(context.Context) (map[tidings.Key]string, error)
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// selected is a label that half of the config maps have, some of the time.
const selected = "soak=odd"

// follow makes the informers: typed, unstructured, metadata only, with selectors and namespaces.
func (s *soak) follow() error {
	maps := s.listConfigMaps("")
	if err := followOne[*corev1.ConfigMap](s, "config maps", tidings.Scope{}, maps); err != nil {
		return err
	}
	if err := followOne[*corev1.ConfigMap](s, "config maps with a label", tidings.Scope{Labels: selected}, s.listConfigMaps(selected)); err != nil {
		return err
	}
	if err := followOne[*unstructured.Unstructured](s, "config maps, unstructured", tidings.Scope{Resource: configMaps}, maps); err != nil {
		return err
	}
	if err := followOne[*metav1.PartialObjectMetadata](s, "config maps, metadata", tidings.Scope{Resource: configMaps}, maps); err != nil {
		return err
	}
	return followOne[*coordinationv1.Lease](s, "leases of two namespaces", tidings.Scope{Resource: leases, Namespaces: []string{"default", "kube-public"}}, s.listLeases)
}

func followOne[T tidings.Object](s *soak, name string, scope tidings.Scope, want func(context.Context) (map[tidings.Key]string, error)) error {
	inf, err := tidings.Informer[T](s.factory, scope)
	if err != nil {
		return err
	}
	var l ledger
	if _, err := inf.AddHandler(tidings.HandlerFuncs[T]{
		Add:    func(o T, _ bool) { l.set(o) },
		Update: func(_, o T) { l.set(o) },
		Delete: func(gone tidings.Tombstone[T]) { l.drop(gone.Key) },
	}, tidings.HandlerOptions{Name: "ledger"}); err != nil {
		return err
	}
	held := func() map[tidings.Key]string {
		versions := map[tidings.Key]string{}
		for o := range inf.Lister().All() {
			versions[tidings.Key{Namespace: o.GetNamespace(), Name: o.GetName()}] = o.GetResourceVersion()
		}
		return versions
	}
	s.follows = append(s.follows, follow{name: name, held: held, told: l.copy, want: want})
	s.crowd.joins = append(s.crowd.joins, func(h *visitor) (leave func(context.Context) error, err error) {
		reg, err := inf.AddHandler(tidings.HandlerFuncs[T]{
			Add: func(T, bool) { h.call() }, Update: func(_, _ T) { h.call() }, Delete: func(tidings.Tombstone[T]) { h.call() },
		}, tidings.HandlerOptions{Name: h.name, Policy: h.policy})
		if err != nil {
			return nil, err
		}
		return reg.Remove, nil
	})
	return nil
}

// ledger replays a handler's notifications.
type ledger struct {
	mu       sync.Mutex
	versions map[tidings.Key]string
}

func (l *ledger) set(o metav1.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.versions == nil {
		l.versions = map[tidings.Key]string{}
	}
	l.versions[tidings.Key{Namespace: o.GetNamespace(), Name: o.GetName()}] = o.GetResourceVersion()
}

func (l *ledger) drop(key tidings.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.versions, key)
}

func (l *ledger) copy() map[tidings.Key]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	versions := map[tidings.Key]string{}
	for k, v := range l.versions {
		versions[k] = v
	}
	return versions
}

func (s *soak) listConfigMaps(labels string) func(context.Context) (map[tidings.Key]string, error) {
	return func(ctx context.Context) (map[tidings.Key]string, error) {
		list, err := s.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: labels})
		if err != nil {
			return nil, err
		}
		versions := map[tidings.Key]string{}
		for i := range list.Items {
			o := &list.Items[i]
			versions[tidings.Key{Namespace: o.Namespace, Name: o.Name}] = o.ResourceVersion
		}
		return versions, nil
	}
}

func (s *soak) listLeases(ctx context.Context) (map[tidings.Key]string, error) {
	versions := map[tidings.Key]string{}
	for _, namespace := range []string{"default", "kube-public"} {
		list, err := s.client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			o := &list.Items[i]
			versions[tidings.Key{Namespace: o.Namespace, Name: o.Name}] = o.ResourceVersion
		}
	}
	return versions, nil
}

// patience is how long informers may take after a fault to converge with the server. The next audit
// finds what remains if a restored server had already passed the versions that were seen.
const patience = 2 * time.Minute

// compare stops the writers, and waits until every store and every ledger equals the server's state.
func (s *soak) compare(ctx context.Context) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.report.Checks++
	for _, f := range s.follows {
		if why := s.agree(ctx, f); why != "" && ctx.Err() == nil {
			s.diverged(f.name + ": " + why)
		}
	}
	s.rest(ctx)
}

func (s *soak) diverged(why string) {
	s.report.Divergences = append(s.report.Divergences, fmt.Sprintf("after %v, %s", time.Since(s.began).Round(time.Second), why))
}

// rest waits until every handler has received everything, and measures the live heap.
func (s *soak) rest(ctx context.Context) {
	deadline := time.Now().Add(patience)
	for {
		pending, objects := s.pending()
		if pending == 0 {
			s.report.Rests = append(s.report.Rests, Rest{At: time.Since(s.began), Heap: live(), Objects: objects})
			return
		}
		if time.Now().After(deadline) {
			s.diverged(fmt.Sprintf("%d changes still wait for handlers", pending))
			return
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

// pending returns the number of changes that wait for handlers, and that of objects in all stores.
func (s *soak) pending() (pending, objects int) {
	for _, st := range s.factory.Status() {
		objects += st.Objects
		for _, h := range st.Handlers {
			pending += h.Pending
		}
	}
	return pending, objects
}

// agree waits until a store and a ledger equal the server's state, and returns the difference if they do not in time.
func (s *soak) agree(ctx context.Context, f follow) (why string) {
	deadline := time.Now().Add(patience)
	for {
		want, err := f.want(ctx)
		switch {
		case err != nil:
			why = err.Error()
		default:
			why = difference("the store", f.held(), want)
			if why == "" {
				why = difference("a handler", f.told(), want)
			}
		}
		if why == "" || time.Now().After(deadline) || !sleep(ctx, 50*time.Millisecond) {
			return why
		}
	}
}

func difference(who string, got, want map[tidings.Key]string) string {
	for k, v := range want {
		if got[k] != v {
			return fmt.Sprintf("%s has %v at %q, the server at %q; %d and %d objects", who, k, got[k], v, len(got), len(want))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%s has %v at %q, the server does not have it", who, k, v)
		}
	}
	return ""
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
