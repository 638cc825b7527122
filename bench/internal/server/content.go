package server

import (
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// firstVersion is the resource version of the list. The versions of its objects are lower, those of the events higher.
const firstVersion = 100_000_000

// content is everything that a server sends, encoded before the first request arrives.
type content struct {
	encoding Encoding
	kind     corpus.Name
	initial  map[string]iter.Seq[[]byte] // by namespace: the objects, then the bookmark that ends them
	marker   frames                      // one event, sent after the initial events of a relist
	expired  []byte                      // the error that makes a client relist
	phases   map[Phase]iter.Seq[[]byte]
	newest   newestObject
	plan     Plan
}

// maxPending is more than how many changes a handler may be behind by: with fewer objects, it would coalesce some.
const maxPending = 1100

// newContent makes the objects and the events of each phase. Most phases change each object at most
// once, and Sustained and Rate change all others before they change one again, so that a handler
// that coalesces changes has nothing to coalesce.
func newContent(c Config) (*content, error) {
	if c.OnTheFly {
		return newStreamed(c)
	}
	objects, err := c.Corpus.Make(c.Objects)
	if err != nil {
		return nil, err
	}
	out := &content{
		encoding: c.Encoding, kind: c.Corpus, initial: map[string]iter.Seq[[]byte]{}, phases: map[Phase]iter.Seq[[]byte]{},
		plan: Plan{Objects: len(objects), Parts: c.Parts, Last: map[Phase]uint64{}, Events: map[Phase]int{}},
	}
	if err := out.addInitial(objects, c.Parts); err != nil {
		return nil, err
	}
	if err := out.addNewest(objects); err != nil {
		return nil, err
	}
	if err := out.addRelist(objects[0]); err != nil {
		return nil, err
	}
	if err := out.addEvents(objects, c); err != nil {
		return nil, err
	}
	if c.Day > 0 {
		out.addDay(c)
	}
	if c.Churn > 0 {
		out.phases[Churn], out.plan.Last[Churn] = churn(c.Encoding, c.Churn, c.Generation)
	}
	return out, nil
}

// addInitial adds the initial events, of all objects or of each part.
func (c *content) addInitial(objects []corpus.Object, parts int) error {
	byNamespace := map[string][]corpus.Object{"": objects}
	if parts > 0 {
		byNamespace = map[string][]corpus.Object{}
		for i, part := range corpus.Divide(objects, parts) {
			byNamespace[corpus.Part(i)] = part
		}
	}
	for namespace, objects := range byNamespace {
		f := &frames{}
		for _, obj := range objects {
			if err := f.add(c.encoding, watch.Added, obj); err != nil {
				return err
			}
		}
		c.plan.Bytes += len(f.data)
		if err := f.add(c.encoding, watch.Bookmark, c.initialEnd()); err != nil {
			return err
		}
		c.initial[namespace] = f.all()
	}
	return nil
}

// initialEnd returns the bookmark that ends the initial events.
func (c *content) initialEnd() corpus.Object {
	end := c.kind.New()
	end.SetResourceVersion(fmt.Sprint(firstVersion))
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return end
}

// addRelist adds the error that ends a watch, and the event after the list that follows.
func (c *content) addRelist(marked corpus.Object) (err error) {
	c.plan.Last[Relist] = firstVersion + 1
	version := marked.GetResourceVersion()
	marked.SetResourceVersion(fmt.Sprint(c.plan.Last[Relist]))
	err = c.marker.add(c.encoding, watch.Modified, marked)
	marked.SetResourceVersion(version)
	if err != nil {
		return err
	}
	c.expired, err = c.encoding.Encode(watch.Error, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410, Message: "too old resource version",
	})
	return err
}

// addEvents adds the events of the phases, in the order in which the phases are run.
func (c *content) addEvents(objects []corpus.Object, size Config) error {
	w := corpus.NewWriter(c.plan.Last[Relist])
	for _, p := range []struct {
		phase  Phase
		events int
		change func(corpus.Object)
	}{
		{Burst, min(size.Burst, len(objects)), w.Status}, {BurstSorted, min(size.Burst, len(objects)), w.Status},
		{Edits, min(size.Burst, len(objects)), w.Edit}, {Sustained, size.Sustained, w.Status},
		{Busiest, size.Busiest, w.Status},
		{BurstAgain, min(size.Burst, len(objects)), w.Status}, {Rate, size.Rate, w.Status},
	} {
		if p.events == 0 {
			continue
		}
		order := w.Order(p.events, len(objects))
		switch p.phase {
		case BurstSorted:
			slices.Sort(order)
		case Busiest:
			few := max(len(objects)/20, min(len(objects), maxPending))
			for i := range order {
				order[i] = order[i%few]
			}
		}
		events := &frames{}
		for _, i := range order {
			p.change(objects[i])
			if err := events.add(c.encoding, watch.Modified, objects[i]); err != nil {
				return err
			}
		}
		c.phases[p.phase], c.plan.Last[p.phase], c.plan.Events[p.phase] = events.all(), w.Version(), p.events
	}
	return nil
}

// bookmark returns a bookmark of a version.
func (c *content) bookmark(version uint64) ([]byte, error) {
	obj := c.kind.New()
	obj.SetResourceVersion(fmt.Sprint(version))
	return c.encoding.Encode(watch.Bookmark, obj)
}

func (f *frames) add(e Encoding, kind watch.EventType, obj corpus.Object) error {
	frame, err := e.Encode(kind, obj)
	if err == nil {
		f.append(frame)
	}
	return err
}
