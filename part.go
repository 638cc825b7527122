package tidings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// part is one list and watch of an informer: a whole resource, or one namespace of it. It is the reflector's sink
// and runs on the reflector's goroutine.
type part[T Object] struct {
	core      *core[T]
	number    deltafifo.Part // its place in core.parts
	namespace string
	source    source.ListerWatcher[T]
	reflector *reflector.Reflector[T]
	transform func(T) (T, error)
	started   time.Time

	ctx    context.Context // the informer's life, set by run
	deltas []object.Delta[T]
	reach  atomic.Pointer[string] // the version that the store holds of this part; written under apply
	listed bool                   // the first list is in the store; guarded by apply
	failed atomic.Pointer[reflector.Error]
}

// newParts makes the parts. core.mu is held.
func (c *core[T]) newParts() ([]*part[T], error) {
	var parts []*part[T]
	for i, namespace := range c.namespaces {
		src, err := c.newSource(namespace, c.transform != nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		p := &part[T]{core: c, number: deltafifo.Part(i), namespace: namespace, source: src, transform: c.transform, started: time.Now()}
		p.reach.Store(new(string))
		p.reflector, err = reflector.New(reflector.Options[T]{
			Name: c.name, Resource: c.resource, Source: src, Sink: p, OnError: p.onError,
			Backoff: c.opts.Backoff, PageSize: c.opts.PageSize, Seed: c.opts.partSeed(i),
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (p *part[T]) run(ctx context.Context) {
	p.ctx = ctx
	_ = p.reflector.Run(ctx) // ends with ctx, whose cause is the informer's to tell
}

// Known finds the object that the store holds in exactly this version.
func (p *part[T]) Known(namespace, name, uid, resourceVersion []byte) (T, bool) {
	// The key is only looked up with: the bytes are not kept, nor written to while it lives.
	key := object.Key{Namespace: unsafe.String(unsafe.SliceData(namespace), len(namespace)), Name: unsafe.String(unsafe.SliceData(name), len(name))}
	obj, ok := p.core.store.Snapshot().Get(key)
	if !ok || len(resourceVersion) == 0 || obj.GetResourceVersion() != string(resourceVersion) || !bytes.Equal(uid, []byte(obj.GetUID())) {
		var none T
		return none, false
	}
	return obj, true
}

// Events takes a batch of watch events through to the subscriptions.
func (p *part[T]) Events(events []source.Event[T]) {
	p.deltas = p.deltas[:0]
	version := ""
	for _, e := range events {
		version = object.MaxResourceVersion(version, e.ResourceVersion)
		if e.Type == source.Bookmark {
			continue
		}
		obj, ok := p.transformed(e.Object)
		if !ok {
			continue
		}
		p.deltas = append(p.deltas, object.Delta[T]{Type: deltaType(e.Type), Key: object.KeyOf(obj), Object: obj})
	}
	p.core.queue.Add(p.number, p.deltas, version)
	clear(p.deltas)
	p.core.process(p.ctx)
}

func deltaType(t source.EventType) object.DeltaType {
	switch t {
	case source.Added:
		return object.Added
	case source.Deleted:
		return object.Deleted
	default:
		return object.Updated
	}
}

// Replace makes items the whole content of the part.
func (p *part[T]) Replace(items []T, resourceVersion string) {
	if p.transform != nil {
		items = p.transformAll(items)
	}
	p.core.queue.Replace(p.number, items, resourceVersion)
	p.core.process(p.ctx)
	p.failed.Store(nil)
}

func (p *part[T]) transformAll(items []T) []T {
	snap := p.core.store.Snapshot()
	kept := items[:0]
	for _, item := range items {
		if known, ok := snap.Get(object.KeyOf(item)); ok && any(known) == any(item) {
			kept = append(kept, item) // it came from Known and is transformed already
			continue
		}
		if obj, ok := p.transformed(item); ok {
			kept = append(kept, obj)
		}
	}
	clear(items[len(kept):])
	return kept
}

// transformed runs the user's transform. What makes up an object's identity is put back if the transform took
// it away. An object whose transform fails is kept as it came, so that nothing is lost.
func (p *part[T]) transformed(obj T) (T, bool) {
	if p.transform == nil {
		return obj, true
	}
	key, uid, version := object.KeyOf(obj), obj.GetUID(), obj.GetResourceVersion()
	out, err := p.callTransform(obj)
	if err == nil && isNil(out) {
		err = errors.New("it returned nil without an error")
	}
	if err != nil {
		p.transformFailed(key, err)
		return obj, true
	}
	if object.KeyOf(out) != key || out.GetUID() != uid || out.GetResourceVersion() != version {
		p.transformFailed(key, errors.New("it changed the name, namespace, uid or resourceVersion; they were put back"))
		out.SetNamespace(key.Namespace)
		out.SetName(key.Name)
		out.SetUID(uid)
		out.SetResourceVersion(version)
	}
	return out, true
}

func (p *part[T]) callTransform(obj T) (out T, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("it panicked: %v", reason)
		}
	}()
	return p.transform(obj)
}

func (p *part[T]) transformFailed(key object.Key, err error) {
	p.core.transformErrors.Add(1)
	p.core.report(fmt.Errorf("%s %s: %w: %w", p.core.name, key, ErrTransform, err))
}

// advance notes the version that the store is about to hold. apply is held.
func (p *part[T]) advance(version string) {
	newest := object.MaxResourceVersion(p.version(), version)
	p.reach.Store(&newest)
}

// version is the version that the store holds of this part.
func (p *part[T]) version() string { return *p.reach.Load() }

func (p *part[T]) onError(err *reflector.Error) {
	p.failed.Store(err)
	p.core.report(err)
	p.core.tell()
}

func (p *part[T]) status() PartStatus {
	st := PartStatus{Namespace: p.namespace, Reflector: p.reflector.Status()}
	if s, ok := p.source.(interface{ Stats() source.Stats }); ok {
		st.Source = s.Stats()
	}
	return st
}

// age is how long ago the server was last heard of, or the part was made.
func (p *part[T]) age(st reflector.Status, now time.Time) time.Duration {
	if st.LastContact.After(p.started) {
		return now.Sub(st.LastContact)
	}
	return now.Sub(p.started)
}
