package timeline

import (
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// maxWaiting is how many events wait for an object at most.
const maxWaiting = 1000

// waiting holds events of objects that come before those they belong to. Each kind has a watch of its own, so that a
// pod may be seen before the ReplicaSet that created it. They wait for as long as one thing is taken to follow from
// another; most belong to somebody whom nobody follows.
type waiting struct {
	events map[string][]news.Event // by the uid that they wait for
	order  []string                // these uids, once for each event, the oldest first
}

// add makes an event wait for an object.
func (w *waiting) add(uid string, e news.Event) {
	for len(w.order) > 0 {
		oldest := w.events[w.order[0]]
		if len(w.order) < maxWaiting && (len(oldest) > 0 && e.Time.Sub(oldest[0].Time) <= within) {
			break
		}
		w.drop(w.order[0])
		w.order = w.order[1:]
	}
	if w.events == nil {
		w.events = map[string][]news.Event{}
	}
	w.events[uid] = append(w.events[uid], e)
	w.order = append(w.order, uid)
}

// drop forgets the oldest event that waits for the object, if there is one.
func (w *waiting) drop(uid string) {
	events := w.events[uid]
	if len(events) < 2 {
		delete(w.events, uid)
		return
	}
	w.events[uid] = events[1:]
}

// take returns the events that waited for the object, the oldest first.
func (w *waiting) take(uid string) []news.Event {
	events := w.events[uid]
	delete(w.events, uid)
	return events
}

// missing returns an object that nothing is known of and that decides whether another, itself or one that it owns,
// belongs to the story; "" if there is none.
func (p *Printer) missing(uid string, depth int) string {
	n := p.objects[uid]
	if n == nil {
		return uid
	}
	if !p.opts.Tree || depth == 0 {
		return ""
	}
	for _, owner := range n.owners {
		if uid := p.missing(owner, depth-1); uid != "" {
			return uid
		}
	}
	return ""
}
