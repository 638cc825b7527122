package replica

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// EventCache holds the last encoded events, so that each is encoded once for all watches.
type EventCache struct {
	mu    sync.Mutex // guards the fields below
	known map[EventKey]*cachedEvent
	order []EventKey // of known, oldest first
	bytes int
}

// EventKey identifies an encoded event of a resource. It names no caller: whether a watch may see the event has been
// decided before, by its namespace and selectors, and all that may see it get the same bytes. The kind is part of it,
// since the same change is an addition to one selector and a deletion to another.
type EventKey struct {
	Epoch   int // of the collection: a restored server assigns versions again
	Version uint64
	Kind    watch.EventType
	Media   string
	Partial bool
}

type cachedEvent struct {
	once sync.Once
	data []byte
	err  error
	size int // of data, as it counts in the cache, whose lock guards it
}

const (
	// maxCachedEvents and maxCachedBytes bound a cache: watchers that are further behind encode for themselves.
	maxCachedEvents = 1024
	maxCachedBytes  = 8 << 20
)

// Get returns an event from the cache, or encodes it.
func (c *EventCache) Get(key EventKey, encode func() ([]byte, error)) ([]byte, error) {
	e := c.find(key)
	e.once.Do(func() {
		e.data, e.err = encode()
		c.added(key, e)
	})
	return e.data, e.err
}

func (c *EventCache) find(key EventKey) *cachedEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[key]; e != nil {
		return e
	}
	if c.known == nil {
		c.known = map[EventKey]*cachedEvent{}
	}
	e := &cachedEvent{}
	c.known[key], c.order = e, append(c.order, key)
	return e
}

// added counts an event that has been encoded, and drops the oldest ones if the cache is full. Events may be dropped
// while they are encoded.
func (c *EventCache) added(key EventKey, e *cachedEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[key] != e {
		return
	}
	e.size = len(e.data)
	c.bytes += e.size
	for len(c.order) > 1 && (len(c.order) > maxCachedEvents || c.bytes > maxCachedBytes) {
		c.bytes -= c.known[c.order[0]].size
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

// clear drops everything.
func (c *EventCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.order, c.bytes = nil, nil, 0
}
