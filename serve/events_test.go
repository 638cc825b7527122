package serve

import (
	"testing"
	"testing/synctest"
)

// TestEventDroppedWhileEncoded has events be dropped from the cache, or all of it be cleared, while they are encoded.
// What the cache holds is counted right, and so it does not become smaller and smaller.
func TestEventDroppedWhileEncoded(t *testing.T) {
	for name, drop := range map[string]func(*eventCache, func(version uint64)){
		"full": func(_ *eventCache, add func(uint64)) {
			for version := range uint64(10) {
				add(2 + version)
			}
		},
		"cleared":     func(c *eventCache, _ func(uint64)) { c.clear() },
		"asked again": func(c *eventCache, add func(uint64)) { c.clear(); add(1) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var c eventCache
			add := func(version uint64) {
				if _, err := c.get(eventKey{version: version}, func() ([]byte, error) {
					return make([]byte, maxCachedBytes/5), nil
				}); err != nil {
					t.Error(err)
				}
			}
			slow := make(chan struct{})
			go func() { // ends with slow
				data, err := c.get(eventKey{version: 1}, func() ([]byte, error) { <-slow; return []byte("late"), nil })
				if string(data) != "late" || err != nil {
					t.Error(data, err)
				}
			}()
			synctest.Wait()
			drop(&c, add)
			close(slow)
			synctest.Wait()
			sum := 0
			for _, e := range c.known {
				sum += len(e.data)
			}
			if c.bytes != sum || len(c.order) != len(c.known) || sum > maxCachedBytes {
				t.Errorf("%s: %d bytes are counted, of %d; %d events, %d in order",
					name, c.bytes, sum, len(c.known), len(c.order))
			}
		})
	}
}
