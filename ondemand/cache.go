package ondemand

import (
	"container/list"
	"encoding/json"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/object"
)

// body is an object as it was read. It never changes.
type body[T object.Object] struct {
	uid     types.UID
	version string
	encoded []byte
	object  T // set if encoding would lose something
	size    int64
	ghost   bool // nothing is kept: the informer of all bodies has it. It counts as if it were, for the balance.
}

// bodyOverhead is roughly what a body takes besides its bytes.
const bodyOverhead = 300

func newBody[T object.Object](codec *codec.Objects[T], obj T) *body[T] {
	b := &body[T]{uid: obj.GetUID(), version: obj.GetResourceVersion()}
	var err error
	if b.encoded, err = codec.Append(nil, obj); err != nil {
		text, _ := json.Marshal(obj) // only for its length
		b.object, b.encoded, b.size = obj, nil, int64(3*len(text))
	}
	b.size += int64(cap(b.encoded)) + bodyOverhead
	return b
}

func (b *body[T]) open(codec *codec.Objects[T]) (T, error) {
	if b.encoded == nil {
		return b.object, nil
	}
	return codec.DecodeAlone(b.encoded)
}

// is reports whether the body is of just the metadata's version.
func (b *body[T]) is(m *metav1.PartialObjectMetadata) bool {
	return b.version == m.ResourceVersion && b.uid == m.UID
}

// fits reports whether the body is not older than the metadata. One with another uid is of an object that was created
// later under the same name.
func (b *body[T]) fits(m *metav1.PartialObjectMetadata) bool {
	return b.version == m.ResourceVersion || object.OlderResourceVersion(m.ResourceVersion, b.version)
}

// cache keeps bodies, those read last first, within the limits of Options.
type cache[T object.Object] struct {
	maxBytes int64
	keepFor  time.Duration

	mu      sync.Mutex
	byKey   map[object.Key]*list.Element // of entries
	order   list.List                    // of *entry[T], the one read last in front
	bytes   int64
	version map[string]string // the last seen version of the metadata, by namespace
	newest  map[string]string // the newest version of a requested body, by namespace
	sweeper *time.Timer       // runs sweep; nil while nothing is held
	closed  bool              // nothing is kept any more
	// puts counts the bodies that were requested, and putBytes their sizes.
	puts, putBytes int64
}

type entry[T object.Object] struct {
	key  object.Key
	body *body[T]
	read time.Time
}

func newCache[T object.Object](opts Options) *cache[T] {
	return &cache[T]{
		maxBytes: opts.MaxBytes, keepFor: opts.KeepFor,
		byKey:   make(map[object.Key]*list.Element),
		version: make(map[string]string), newest: make(map[string]string),
	}
}

// get returns the body for the metadata, which is part of a snapshot; nil if there is none.
func (c *cache[T]) get(key object.Key, m *metav1.PartialObjectMetadata, snapshots Metadata) *body[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	// It is asked for under the lock: what another read had seen before would look as if it went back.
	version := snapshots.ResourceVersionIn(key.Namespace)
	if last := c.version[key.Namespace]; object.OlderResourceVersion(version, last) {
		c.removeAll() // the server was restored from a backup: what was read may never have been
		clear(c.newest)
	}
	c.version[key.Namespace] = version
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	held := e.Value.(*entry[T])
	ahead := held.body.fits(m) && object.OlderResourceVersion(version, held.body.version)
	if held.body.ghost || !held.body.is(m) && !ahead {
		return nil
	}
	held.read = time.Now()
	c.order.MoveToFront(e)
	return held.body
}

// serve decides whether a reader gets the body in just the metadata's version from the informer of all, which had
// reached a version before. It has to have seen what requests have brought: otherwise the reader might go back. requested
// is set if that would have been a request without the informer.
func (c *cache[T]) serve(key object.Key, m *metav1.PartialObjectMetadata, reached string) (serve, requested bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object.OlderResourceVersion(reached, c.newest[key.Namespace]) {
		return false, false
	}
	size := c.meanSize()
	if e := c.byKey[key]; e != nil {
		requested, size = !e.Value.(*entry[T]).body.is(m), e.Value.(*entry[T]).body.size
		c.remove(e)
	} else {
		requested = true
	}
	c.add(key, &body[T]{uid: m.UID, version: m.ResourceVersion, size: size, ghost: true})
	return true, requested
}

// meanSize returns the mean size of the bodies that were requested. The caller holds mu.
func (c *cache[T]) meanSize() int64 { return c.putBytes / max(1, c.puts) }

// sizeOf returns what a number of bodies take.
func (c *cache[T]) sizeOf(objects int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(objects) * c.meanSize()
}

// put keeps the body instead of an older one of the object.
func (c *cache[T]) put(key object.Key, b *body[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.remove(e)
	}
	c.puts, c.putBytes = c.puts+1, c.putBytes+b.size
	if object.OlderResourceVersion(c.newest[key.Namespace], b.version) || c.newest[key.Namespace] == "" {
		c.newest[key.Namespace] = b.version
	}
	c.add(key, b)
}

// add keeps the body in front. The caller holds mu, and has removed an older one.
func (c *cache[T]) add(key object.Key, b *body[T]) {
	if b.size > c.maxBytes || c.closed {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[T]{key, b, time.Now()})
	c.bytes += b.size
	for c.bytes > c.maxBytes {
		c.remove(c.order.Back())
	}
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(c.keepFor, c.sweep)
	}
}

// sweep drops the bodies that have not been read for long enough.
func (c *cache[T]) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		if left := c.keepFor - time.Since(e.Value.(*entry[T]).read); left > 0 {
			c.sweeper = time.AfterFunc(left, c.sweep)
			return
		}
		c.remove(e)
	}
	c.sweeper = nil
}

func (c *cache[T]) drop(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.remove(e)
	}
}

// close drops all bodies, and those that are still to come.
func (c *cache[T]) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.removeAll()
	if c.sweeper != nil {
		c.sweeper.Stop()
		c.sweeper = nil
	}
}

// removeAll removes all bodies. The caller holds mu.
func (c *cache[T]) removeAll() {
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		c.remove(e)
	}
}

// remove removes a body. The caller holds mu.
func (c *cache[T]) remove(e *list.Element) {
	held := e.Value.(*entry[T])
	c.order.Remove(e)
	delete(c.byKey, held.key)
	c.bytes -= held.body.size
}
