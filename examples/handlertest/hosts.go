// Package handlertest shows how to test a handler without a server: its tests call the handler
// directly, and run an informer over a fake clientset in simulated time.
package handlertest

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
)

// Hosts is a handler that tracks which Services point to which host. Names may be called from any goroutine.
type Hosts struct {
	mu sync.Mutex
	by map[string][]string // names of services by host
}

// Names returns the sorted names of the Services that point to a host.
func (h *Hosts) Names(host string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.by[host])
}

// OnAdd implements tidings.Handler, as do OnUpdate and OnDelete.
func (h *Hosts) OnAdd(s *corev1.Service, _ bool) { h.change(nil, s) }

// OnUpdate moves a Service whose host has changed.
func (h *Hosts) OnUpdate(old, new *corev1.Service) { h.change(old, new) }

// OnDelete removes a Service.
func (h *Hosts) OnDelete(gone tidings.Tombstone[*corev1.Service]) { h.change(gone.Object, nil) }

func (h *Hosts) change(old, new *corev1.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old != nil {
		host := old.Spec.ExternalName
		h.by[host] = slices.DeleteFunc(h.by[host], func(name string) bool { return name == old.Name })
		if len(h.by[host]) == 0 {
			delete(h.by, host)
		}
	}
	if new != nil {
		if h.by == nil {
			h.by = map[string][]string{}
		}
		host := new.Spec.ExternalName
		h.by[host] = append(h.by[host], new.Name)
		slices.Sort(h.by[host])
	}
}
