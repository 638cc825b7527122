package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/tidings/tidings/serve/internal/callers"
)

// watchesPath is the page of who watches what.
const watchesPath = "/debug/watches"

// watches are the open watches.
type watches struct {
	mu   sync.Mutex // guards open
	open map[*openWatch]bool
}

// openWatch is a watch, for the page.
type openWatch struct {
	*watchSink
	user, namespace string
	since           time.Time
}

// add adds a watch until the returned function is called.
func (w *watches) add(s *watchSink) (remove func()) {
	o := &openWatch{watchSink: s, user: callers.UserOf(s.r), namespace: cmp.Or(s.target.Namespace, "*"), since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*openWatch]bool{}
	}
	w.open[o] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, o)
	}
}

func (w *watches) list() []*openWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*openWatch, 0, len(w.open))
	for o := range w.open {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *openWatch) int {
		return cmp.Or(cmp.Compare(a.resource.Name, b.resource.Name), cmp.Compare(a.user, b.user),
			a.since.Compare(b.since))
	})
	return all
}

// cutStalled cuts the watches whose clients take longer than patience to read, until ctx ends.
func (w *watches) cutStalled(ctx context.Context, patience time.Duration) {
	tick := time.NewTicker(patience / 4)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			w.cutBefore(now.Add(-patience))
		case <-ctx.Done():
			return
		}
	}
}

// cutBefore cuts the watches that have been writing since before a time. None is removed meanwhile, so that the
// connection of each may still be used.
func (w *watches) cutBefore(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for o := range w.open {
		o.cutIfStalled(t)
	}
}

// writeWatches writes the page. It has selectors, but nothing of the objects.
func (s *Server) writeWatches(out http.ResponseWriter) {
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESOURCE\tNAMESPACE\tUSER\tAGENT\tSELECTORS\tSINCE\tSENT\tLATER CHANGES")
	for _, o := range s.watches.list() {
		position := o.position.Load()
		selectors := cmp.Or(o.query.Get("labelSelector"), "-") + " " + cmp.Or(o.query.Get("fieldSelector"), "-")
		fmt.Fprintf(table, "%s\t%q\t%q\t%q\t%q\t%s\t%d\t%d\n",
			o.resource.Name, o.namespace, o.user, o.r.UserAgent(), selectors,
			time.Since(o.since).Round(time.Second), position, o.found.Collection.ChangesSince(position))
	}
	_ = table.Flush() // the client has gone
}
