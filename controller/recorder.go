package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// notebook is where a transport notes writes.
type notebook interface {
	// tracks reports whether a cache may have to see the request's write.
	tracks(apiwrite.Request) bool
	// caches returns the caches that may have to see writes.
	caches() []cacheView
	// note records what is expected after a write.
	note(*expectation)
}

// recorder is passed in a reconcile's context, to record writes for its key.
type recorder interface {
	notebook
	// reached returns the versions of the caches when the reconcile began.
	reached() reachedVersions
	// lastWritten returns the uid of the object that was last reported as written under the expectation's key.
	lastWritten(*expectation) types.UID
	wait(ctx context.Context) error
}

// keyRecorder is the recorder of a key of a gate.
type keyRecorder[K comparable] struct {
	gate  *gate[K]
	key   K
	began reachedVersions
}

func (r *keyRecorder[K]) tracks(request apiwrite.Request) bool { return r.gate.tracks(request) }
func (r *keyRecorder[K]) caches() []cacheView                  { return r.gate.caches() }
func (r *keyRecorder[K]) note(e *expectation)                  { r.gate.add(r.key, e) }
func (r *keyRecorder[K]) reached() reachedVersions             { return r.began }
func (r *keyRecorder[K]) wait(ctx context.Context) error       { return r.gate.wait(ctx, r.key) }

func (r *keyRecorder[K]) lastWritten(e *expectation) (last types.UID) {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	p := r.gate.pending[r.key]
	if p == nil {
		return ""
	}
	for other := range p.every() {
		if other.want == present && other.in == e.in && other.key() == e.key() {
			last = other.object.UID
		}
	}
	return last
}

type recorderKey struct{}

func withRecorder[K comparable](ctx context.Context, g *gate[K], key K) context.Context {
	var r struct { // allocated at once
		keyRecorder[K]
		room [4]reachedVersion // few controllers have more caches
	}
	r.gate, r.key = g, key
	r.began = reachedBy(r.room[:0], g.caches(), "", func(cacheView) bool { return true })
	return context.WithValue(ctx, recorderKey{}, recorder(&r.keyRecorder))
}

func recorderOf(ctx context.Context) recorder {
	r, _ := ctx.Value(recorderKey{}).(recorder)
	return r
}

// heldBefore returns the uids of the objects that caches hold under the key of a request, each once.
func heldBefore(caches []cacheView, r apiwrite.Request) (uids []types.UID) {
	if r.Name == "" {
		return nil
	}
	for _, cache := range caches {
		if !cache.tracks(r.Resource) {
			continue
		}
		held, ok := cache.state(object.Key{Namespace: r.Namespace, Name: r.Name})
		if ok && (len(uids) == 0 || uids[0] != held.uid) {
			uids = append(uids, held.uid)
		}
	}
	return uids
}

// reachedVersions are versions that caches were current to.
type reachedVersions []reachedVersion

type reachedVersion struct {
	cache     cacheView
	version   string
	rewritten uint64 // when the cache's history was last seen to be another one
}

// reachedBy appends the versions that the caches are current to in a namespace; "" means all.
func reachedBy(all reachedVersions, caches []cacheView, namespace string, concerned func(cacheView) bool) reachedVersions {
	for _, cache := range caches {
		if concerned(cache) {
			now, rewritten := cache.version(namespace)
			all = append(all, reachedVersion{cache, now, rewritten})
		}
	}
	return all
}

// passed reports whether the cache had reached a later version, in the history that it still has.
func (all reachedVersions) passed(v view, version string, rewritten uint64) bool {
	for _, r := range all {
		if v == view(r.cache) {
			return r.rewritten == rewritten && object.OlderResourceVersion(version, r.version)
		}
	}
	return false
}
