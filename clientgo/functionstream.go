package clientgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// functionStream is a watch that is read through a function. The function's own watch gets a sample of the events.
type functionStream struct {
	source.Stream[tidings.Object]
	ctx      context.Context
	source   *functionSource
	arrival  *arrival
	call     *call[watch.Interface]
	opts     source.WatchOptions[tidings.Object]
	body     *sampleBody
	function watch.Interface // the function's watch
	handed   int             // events with objects that have been handed on
	next     int             // of these the next to be in a sample
	plain    bool            // the Stream has been replaced by the function's

	mu     sync.Mutex // guards the Stream while it is replaced
	closed bool
}

type streamEvent struct {
	source.Event[tidings.Object]
	of received
}

func newFunctionStream(ctx context.Context, stream source.Stream[tidings.Object], s *functionSource, a *arrival,
	c *call[watch.Interface], opts source.WatchOptions[tidings.Object],
) *functionStream {
	f := &functionStream{Stream: stream, ctx: ctx, source: s, arrival: a, call: c, opts: opts, body: newSampleBody()}
	a.answer(answer{response: okResponse(f.body, -1)})
	return f
}

// Next implements source.Stream.
func (f *functionStream) Next(buf []source.Event[tidings.Object]) ([]source.Event[tidings.Object], error) {
	err := f.NextDecoded(func(e source.Event[tidings.Object], _ received) { buf = append(buf, e) })
	return buf, err
}

// NextDecoded is Next for the engine.
func (f *functionStream) NextDecoded(each func(source.Event[tidings.Object], received)) error {
	switch {
	case f.plain:
		return f.read(each)
	case f.next >= f.handed+maxBatch:
		return f.read(func(e source.Event[tidings.Object], of received) {
			f.handed++
			each(e, of)
		})
	}
	var events []streamEvent
	err := f.read(func(e source.Event[tidings.Object], of received) { events = append(events, streamEvent{e, of}) })
	if sample := f.sample(events); len(sample) > 0 {
		if unlike := f.check(sample); unlike != nil {
			return f.replace(unlike, each)
		}
	}
	for _, e := range events {
		each(e.Event, e.of)
	}
	return err
}

// read reads the next events from the server.
func (f *functionStream) read(each func(source.Event[tidings.Object], received)) error {
	if stream, ok := f.Stream.(interface {
		NextDecoded(func(source.Event[tidings.Object], received)) error
	}); ok {
		return stream.NextDecoded(each)
	}
	events, err := f.Stream.Next(nil)
	for _, e := range events {
		each(e, received{Object: e.Object})
	}
	return err
}

// sample returns those of the next events that the function's watch gets.
func (f *functionStream) sample(events []streamEvent) []streamEvent {
	var objects []tidings.Object
	at := map[tidings.Object]streamEvent{}
	for _, e := range events {
		if e.Object != nil && e.Type != source.Bookmark && e.Type != source.Invalid {
			objects = append(objects, e.Object)
			at[e.Object] = e
		}
	}
	first := f.handed
	f.handed += len(objects)
	size := sampleSize
	switch {
	case f.next >= f.handed:
		return nil
	case first >= sampledEvents:
		size = 1
	}
	f.next = f.handed
	if f.handed >= sampledEvents {
		f.next += sampleEvery
	}
	var sample []streamEvent
	for _, obj := range spread(objects, size) {
		sample = append(sample, at[obj])
	}
	return sample
}

// check lets the function's watch send the sample, and returns an error unless it does.
func (f *functionStream) check(sample []streamEvent) error {
	text, err := f.encode(sample)
	if err != nil {
		return unlikeError{err.Error()}
	}
	f.body.add(text)
	timer := time.NewTimer(checkTimeout)
	defer timer.Stop()
	for _, want := range sample {
		select {
		case got, ok := <-f.function.ResultChan():
			if !ok || !want.is(got) {
				return unlikeError{"the watch function's watch had another event than the server's"}
			}
		case a := <-f.call.arrivals:
			a.answer(answer{pass: true})
			return unlikeError{"the function sends more than one request"}
		case <-timer.C:
			return unlikeError{"the watch function's watch lacks an event of the server's"}
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
	return nil
}

// is reports whether a client's event is e.
func (e streamEvent) is(got watch.Event) bool {
	obj, ok := got.Object.(tidings.Object)
	return ok && string(got.Type) == e.Type.String() && object.KeyOf(obj) == object.KeyOf(e.Object) && alike(obj, e.Object)
}

// encode encodes events as a server does.
func (f *functionStream) encode(sample []streamEvent) ([]byte, error) {
	var out bytes.Buffer
	for _, e := range sample {
		kind := f.source.kindOf(f.arrival.request, []tidings.Object{e.Object})
		text, err := json.Marshal(withKind(e.Object, kind))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "{\"type\":%q,\"object\":%s}\n", e.Type, text)
	}
	return out.Bytes(), nil
}

// replace replaces the watch by the function's own. Nothing of it has been handed on, but if the watch follows a list,
// that may be wrong, too.
func (f *functionStream) replace(why error, each func(source.Event[tidings.Object], received)) error {
	_ = f.end() // the error would be that of a connection that is not needed
	if !isUnlike(why) {
		return why
	}
	f.source.distrust(why)
	if !f.opts.SendInitialEvents {
		return errStartAgain
	}
	plain, err := f.source.plain.Watch(f.ctx, f.opts)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.Stream, f.plain = plain, true
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return errors.Join(source.ErrClosed, plain.Close())
	}
	return f.read(each)
}

// Close ends the watch, and that of the function.
func (f *functionStream) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	return f.end()
}

// end ends the present stream, and the function's watch.
func (f *functionStream) end() error {
	f.body.Close()
	f.call.end(stopAndDrain)
	f.mu.Lock()
	stream := f.Stream
	f.mu.Unlock()
	return stream.Close()
}

// stopAndDrain stops a watch and drops what it still sends: one that filters others waits for a reader.
func stopAndDrain(w watch.Interface) {
	w.Stop()
	timer := time.NewTimer(checkTimeout)
	defer timer.Stop()
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-timer.C:
			return
		}
	}
}

// sampleBody is the body of the answer to a function's watch.
type sampleBody struct {
	mu     sync.Mutex
	change sync.Cond
	text   bytes.Buffer
	closed bool
}

func newSampleBody() *sampleBody {
	b := new(sampleBody)
	b.change.L = &b.mu
	return b
}

// add adds events. It does not wait for them to be read.
func (b *sampleBody) add(text []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(text)
	b.change.Broadcast()
}

// Read waits for an event or the end.
func (b *sampleBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.text.Len() == 0 && !b.closed {
		b.change.Wait()
	}
	return b.text.Read(p)
}

// Close ends the body. What has been added can still be read.
func (b *sampleBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
	return nil
}
