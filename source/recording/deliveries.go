package recording

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/source"
)

// DeliveryKind says what a Delivery is.
type DeliveryKind uint8

// The kinds of deliveries.
const (
	// ListBegan and WatchBegan say that a request was sent.
	ListBegan DeliveryKind = iota + 1
	WatchBegan
	// WatchOpened says that the server accepted a watch.
	WatchOpened
	// Item is an object of a list, in Object.
	Item
	// Skipped is an object of a list that could not be decoded; Err says why.
	Skipped
	// Events are events of a watch that arrived together, in Events.
	Events
	// Listed says that a list succeeded, with Result.
	Listed
	// Failed says that a list or watch failed or ended; Err is io.EOF for the normal end of a watch.
	Failed
	// Abandoned says that the recorded program itself ended a list or watch.
	Abandoned
)

// Delivery is one step of a list or watch, in the order in which all of them happened.
type Delivery struct {
	Kind DeliveryKind
	// At is the time since the recording began.
	At time.Duration
	// Collection is the index of the collection in Recording.Collections.
	Collection int
	// Request is the number of the list or watch, counted from 1.
	Request int
	// Continued is set if a list continues the previous one, page by page; InitialEvents if a watch begins with the
	// events of a list.
	Continued, InitialEvents bool
	// VersionCheck is set for everything that belongs to a list of a single object, which a program made only to learn
	// the server's version.
	VersionCheck bool

	Object *unstructured.Unstructured
	Events []source.Event[*unstructured.Unstructured]
	Result source.ListResult
	Err    error
}

// Deliveries returns everything that was recorded, of all collections, in order. It reads the file
// as it goes, and ends after the first error. Unlike a Player, it waits for nothing and needs no
// informer.
func (rec *Recording) Deliveries() iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		in := bufio.NewReaderSize(io.NewSectionReader(rec.reader, 0, rec.size), 64<<10)
		var buf bytes.Buffer
		begun := 0 // number of requests
		for first := true; ; first = false {
			text, err := readLine(in, &buf)
			if err == io.EOF { // with text if the file was truncated; see Incomplete
				return
			}
			var e entry
			if err == nil {
				e, err = parse(text)
			}
			if err != nil {
				yield(Delivery{}, fmt.Errorf("recording: %w", err))
				return
			}
			if e.List != nil || e.Watch != nil {
				begun++
			}
			if first || e.Collection != nil || e.End != "" || e.Call < 1 || e.Call > begun {
				continue
			}
			d, err := rec.delivery(e)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// delivery converts an entry of a request.
func (rec *Recording) delivery(e entry) (d Delivery, err error) {
	c := rec.calls[e.Call-1]
	collection := rec.collections[c.of]
	d = Delivery{At: time.Duration(e.At), Collection: c.of, Request: e.Call, VersionCheck: collection.isVersionCheck(c.number)}
	if c.list != nil {
		d.Continued = c.list.Continue != ""
	} else {
		d.InitialEvents = c.watch.InitialEvents
	}
	switch {
	case e.List != nil:
		d.Kind = ListBegan
	case e.Watch != nil:
		d.Kind = WatchBegan
	case e.Opened:
		d.Kind = WatchOpened
	case e.Item != nil:
		d.Kind = Item
		d.Object, err = decode[*unstructured.Unstructured](e.Item, collection.scope.Kind)
	case e.Skipped != nil:
		d.Kind, d.Err = Skipped, e.Skipped.objectError()
	case len(e.Events) > 0:
		d.Kind, d.Events = Events, eventsOf[*unstructured.Unstructured](nil, e.Events, collection.scope.Kind)
	case e.Result != nil:
		d.Kind = Listed
		d.Result = source.ListResult{ResourceVersion: e.Result.ResourceVersion, Continue: e.Result.Continue}
	case e.Failure != nil && e.Failure.Code == codeClosed:
		d.Kind = Abandoned
	case e.Failure != nil:
		d.Kind, d.Err = Failed, e.Failure.err()
	}
	if err != nil {
		err = fmt.Errorf("recording: %w", err)
	}
	return d, err
}
