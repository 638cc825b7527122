package controller

import (
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
)

// cacheView is a cache that may have to show writes. A watch[T] has these methods for its cache.
type cacheView interface {
	view
	// name is that of the cache in messages, and tracks reports whether it may hold objects of the resource.
	name() string
	tracks(schema.GroupResource) bool
	// held iterates over the objects of a namespace, or of all, that the cache holds, if it can tell.
	held(namespace string) iter.Seq[metav1.Object]
	// server returns the base URL of the server that the cache follows; nil if it is not known.
	server() *url.URL
}

func (w *watch[T]) name() string { return w.cache.Name() }

func (w *watch[T]) tracks(r schema.GroupResource) bool { return sameResource(w.cache.Name(), r) }

// sameResource reports whether a cache with this name may hold the resource's objects.
func sameResource(cache string, r schema.GroupResource) bool {
	name, group, _ := strings.Cut(cache, ".")
	if name != r.Resource {
		return false
	}
	return group == r.Group || name == "events" && (group == "" || group == "events.k8s.io") && (r.Group == "" || r.Group == "events.k8s.io")
}

func (w *watch[T]) version(namespace string) (now string, rewritten uint64) {
	if of, ok := intake.InternalsOf(w.cache).(interface{ Rewrites() uint64 }); ok {
		rewritten = w.histories.count(of.Rewrites()) // before the version, which may change meanwhile
		return w.cache.ResourceVersionIn(namespace), rewritten
	}
	now = w.cache.ResourceVersionIn(namespace)
	return now, w.histories.observe(namespace, now)
}

func (w *watch[T]) state(key object.Key) (state, bool) {
	held, ok := w.cache.Get(key)
	if !ok {
		return state{}, false
	}
	return stateOf(held), true
}

// metadataJudge is implemented by caches that can tell from an object's metadata whether they would hold it.
type metadataJudge interface {
	// CoversMetadata is Covers for an object of which only the metadata is known. known is false if it does not
	// suffice.
	CoversMetadata(o metav1.Object) (covers, known bool)
}

func (w *watch[T]) covers(o metav1.Object) (covers, known bool) {
	if judge, ok := w.cache.(metadataJudge); ok {
		return judge.CoversMetadata(o)
	}
	return false, false
}

func (w *watch[T]) hasNamespace(namespace string) bool {
	of, ok := w.cache.(interface{ Namespaces() []string })
	if !ok {
		return true
	}
	all := of.Namespaces()
	return slices.Contains(all, "") || slices.Contains(all, namespace)
}

func (w *watch[T]) held(namespace string) iter.Seq[metav1.Object] {
	if of, ok := intake.InternalsOf(w.cache).(interface {
		Held(string) iter.Seq[metav1.Object]
	}); ok {
		return of.Held(namespace)
	}
	return func(func(metav1.Object) bool) {}
}

func (w *watch[T]) server() *url.URL {
	if of, ok := intake.InternalsOf(w.cache).(interface{ Server() *url.URL }); ok {
		return of.Server()
	}
	return nil
}

// histories notices when a cache has another history than before, as after a restore of the server, in which earlier
// writes may not exist. An informer counts that. Of any other cache the versions in each namespace are followed: one that
// goes back, and passes the old one before anybody looks, is not noticed.
type histories struct {
	mu          sync.Mutex
	byNamespace map[string]history
	// counted is set if the cache counts its histories; rewrites is the count, and rewritten when it last grew, by the
	// historyClock.
	counted             bool
	rewrites, rewritten uint64
}

// count takes the count of a cache, and returns when it last grew.
func (h *histories) count(rewrites uint64) (rewritten uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counted && rewrites != h.rewrites {
		h.rewritten = historyClock.Add(1)
	}
	h.counted, h.rewrites = true, rewrites
	return h.rewritten
}

type history struct {
	last      string // the last version that was seen
	rewritten uint64 // when it was last seen to go back, by the historyClock
}

// observe follows the version in a namespace, and returns when it was last seen to go back.
func (h *histories) observe(namespace, now string) (rewritten uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.byNamespace[namespace]
	if now == "" || now == seen.last {
		return seen.rewritten
	}
	if object.OlderResourceVersion(now, seen.last) {
		seen.rewritten = historyClock.Add(1)
	}
	seen.last = now
	if h.byNamespace == nil {
		h.byNamespace = make(map[string]history)
	}
	h.byNamespace[namespace] = seen
	return seen.rewritten
}
