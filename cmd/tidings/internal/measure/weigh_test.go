package measure

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tidings/tidings/internal/wire"
)

// copies is a cache of plain copies, whose size is known. Publishing takes as much again.
type copies struct {
	list, published [][]byte
	fail            error
}

func (c *copies) decode(data []byte) error {
	c.list = append(c.list, bytes.Clone(data))
	return c.fail
}

func (c *copies) publish() {
	for _, data := range c.list {
		c.published = append(c.published, bytes.Clone(data))
	}
}

func (c *copies) stats() wire.Stats { return wire.Stats{Bytes: uint64(len(c.list))} }

// blocks returns n blocks whose size is one of the allocator's size classes.
func blocks(n int) [][]byte {
	raw := make([][]byte, n)
	for i := range raw {
		raw[i] = bytes.Repeat([]byte{byte(i)}, 1024)
	}
	return raw
}

// TestWeigh: the figures are those of the cache alone, although nothing uses the encoded objects afterwards.
func TestWeigh(t *testing.T) {
	const n = 20_000
	got, stats, err := weigh(t.Context(), blocks(n), func() (cache, error) { return &copies{list: make([][]byte, 0, n)}, nil })
	if err != nil || stats.Bytes != n {
		t.Fatal(stats.Bytes, err)
	}
	headers := uint64(2 * pointerSize * n) // a slice takes three words, and one of them is taken for the list's
	near := func(what string, got, want uint64) {
		// A collection may free a few dozen objects that the runtime had kept for itself.
		if got < want-want/100 || got > want+want/100 {
			t.Errorf("%s: %d, want %d or up to 1%% more or less", what, got, want)
		}
	}
	near("heap bytes", got.HeapBytes, n*1024+headers)
	near("heap objects", got.HeapObjects, n)
	near("objects with what was published", got.CacheObjects, 2*n)
	if most := uint64(2*n*1024 + 4*headers); got.CacheBytes < 2*n*1024 || got.CacheBytes > most {
		t.Errorf("%d bytes with what was published, want %d to %d", got.CacheBytes, 2*n*1024, most)
	}
	if got.DecodeSeconds <= 0 {
		t.Error("no time has passed")
	}
}

func TestWeighEndsEarly(t *testing.T) {
	broken := errors.New("broken")
	if _, _, err := weigh(t.Context(), blocks(1), func() (cache, error) { return &copies{fail: broken}, nil }); !errors.Is(err, broken) || err.Error() != "object 1 of the list: broken" {
		t.Error(err)
	}
	if _, _, err := weigh(t.Context(), nil, func() (cache, error) { return nil, broken }); err != broken {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if _, _, err := weigh(ctx, blocks(1), func() (cache, error) { return &copies{}, nil }); err != broken {
		t.Error(err)
	}
}

func TestHeapStopsAtZero(t *testing.T) {
	if got := (heap{5, 1}).minus(heap{3, 3}, heap{3, 3}); got != (heap{}) {
		t.Error(got)
	}
}
