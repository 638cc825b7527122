package replica

import (
	"context"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// holder is a collection as a reflector fills it. Objects that have not changed are not opened, and lists are packed
// while they come.
type holder struct{ *Collection }

var _ intake.Holder[*codec.Raw] = holder{}

// Begin implements intake.Decoder.
func (holder) Begin() {}

// Decode implements intake.Decoder.
func (h holder) Decode(e *intake.Encoded[*codec.Raw]) (r intake.Received[*codec.Raw], err error) {
	if e.Reuse {
		if held, ok := h.newest().Held(e.Key); ok && e.Is(held.UID(), held.ResourceVersion()) {
			return intake.Received[*codec.Raw]{State: &held, Unchanged: true}, nil
		}
	}
	r.Object, err = e.Decode(nil, nil)
	return r, err
}

// Resume implements intake.Holder: there is nothing yet.
func (holder) Resume(context.Context) (none intake.Contents, err error) { return none, nil }

// OnResume implements intake.Holder.
func (holder) OnResume(context.Context, string) {}

// Change implements intake.Holder.
func (h holder) Change(changes []intake.Change[*codec.Raw], version string) {
	deltas := make([]object.Delta[*codec.Raw], 0, len(changes))
	for i := range changes {
		if !changes[i].Unchanged {
			deltas = append(deltas, changes[i].Delta)
		}
	}
	h.Add(deltas, version)
}

// Gather implements intake.Holder.
func (h holder) Gather(n int) intake.Gathering[*codec.Raw] { return h.gather(n) }

// gather returns a Gathering for about n objects.
func (c *Collection) gather(n int) *gathering {
	c.writing.Lock()
	defer c.writing.Unlock()
	return &gathering{Gathering: c.writer.Store().Gather(n), codec: c.codec}
}

// gathering is the objects of a list. If objects are packed, those that come together are packed with each other.
type gathering struct {
	*store.Gathering[*codec.Raw]
	codec *rawCodec
	size  int // of the objects that are not packed yet
}

const (
	// packTogether is how many objects are packed at a time, and packBytes how many bytes.
	packTogether = 500
	packBytes    = 2 << 20
)

// Add implements intake.Gathering.
func (g *gathering) Add(r intake.Received[*codec.Raw]) bool {
	held, ok := r.State.(*store.Held[*codec.Raw])
	switch {
	case r.Unchanged && ok:
		g.AddHeld(*held)
	case g.codec == nil:
		g.Gathering.Add(r.Object)
	default:
		data := g.codec.encode(nil, r.Object)
		g.AddEncoded(r.Object, store.EncodingOf(data))
		if g.size += len(data); g.size >= packBytes || g.Open() >= packTogether {
			g.fold()
		}
	}
	return true
}

func (g *gathering) fold() {
	g.Fold()
	g.size = 0
}

// Set implements intake.Gathering.
func (g *gathering) Set(i int, r intake.Received[*codec.Raw]) bool {
	o := r.Object
	if held, ok := r.State.(*store.Held[*codec.Raw]); r.Unchanged && ok {
		o = held.Object()
	}
	g.Gathering.Set(i, o)
	return true
}

// Collection implements intake.Gathering.
func (g *gathering) Collection() object.Collection[*codec.Raw] {
	g.fold()
	return g.Gathering
}

// Close implements intake.Gathering.
func (g *gathering) Close() (kept string) {
	g.Gathering.Close()
	return ""
}
