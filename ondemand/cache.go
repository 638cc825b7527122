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
	sweeper *time.Timer       // runs sweep; nil while nothing is held
	closed  bool              // nothing is kept any more
}

type entry[T object.Object] struct {
	key  object.Key
	body *body[T]
	read time.Time
}

func newCache[T object.Object](opts Options) *cache[T] {
	return &cache[T]{
		maxBytes: opts.MaxBytes, keepFor: opts.KeepFor,
		byKey: make(map[object.Key]*list.Element), version: make(map[string]string),
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
	}
	c.version[key.Namespace] = version
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	held := e.Value.(*entry[T])
	current := held.body.version == m.ResourceVersion && held.body.uid == m.UID
	ahead := held.body.fits(m) && object.OlderResourceVersion(version, held.body.version)
	if !current && !ahead {
		return nil
	}
	held.read = time.Now()
	c.order.MoveToFront(e)
	return held.body
}

// put keeps the body instead of an older one of the object.
func (c *cache[T]) put(key object.Key, b *body[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.remove(e)
	}
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
