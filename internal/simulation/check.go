package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// settle waits until nothing is wrong, or until Patience has passed.
func (r *run) settle() {
	const look = 5 * time.Second
	began := time.Now()
	for {
		time.Sleep(look)
		r.pool.restartEnded()
		wrong := r.problem()
		switch waited := time.Since(began); {
		case wrong == "":
			r.report.Settled = waited
			return
		case waited > Patience:
			r.diverge("after %v: %s", Patience, wrong)
			return
		}
	}
}

// problem describes what is not right yet, or returns "".
func (r *run) problem() string {
	for _, v := range r.views {
		title, store := fmt.Sprint(v.scope()), v.objects()
		if d := difference(store, v.scope().objects(r.server)); d != "" {
			return fmt.Sprintf("the store of %s is not what the server has: %s; the server is at %s, the informer: %s",
				title, d, r.server.ResourceVersion(), describe(v.status()))
		}
		if err := v.status().NotFresh; err != nil {
			return fmt.Sprintf("%s is not fresh: %v", title, err)
		}
		for _, h := range v.replays() {
			if d := difference(h.state, store); d != "" {
				return fmt.Sprintf("what %s of %s was told is not what the store has: %s", h.name, title, d)
			}
		}
	}
	if stale := r.pool.stale(); stale != "" {
		return stale
	}
	if unreached := r.unreached(); unreached != "" {
		return fmt.Sprintf("%s; %s", unreached, r.pool.describe())
	}
	return ""
}

// current reports whether all informers, including those of the processes, have reached a version of the server.
func (r *run) current(version string) bool {
	statuses := r.pool.statuses()
	for _, v := range r.views {
		statuses = append(statuses, v.status())
	}
	for _, s := range statuses {
		for _, p := range s.Parts {
			if object.OlderResourceVersion(p.ResourceVersion, version) {
				return false
			}
		}
	}
	return true
}

// describe says what an informer is doing.
func describe(s tidings.Status) string {
	var parts []string
	for _, p := range s.Parts {
		parts = append(parts, fmt.Sprintf("%q %v at %s, %v since it heard from the server", p.Namespace, p.Reflector.Phase, p.ResourceVersion, p.Age))
	}
	for _, h := range s.Handlers {
		parts = append(parts, fmt.Sprintf("%s: %d pending since %v", h.Name, h.Pending, h.Lag))
	}
	return strings.Join(parts, ", ")
}

// difference describes how objects differ from what is wanted, by their versions.
func difference(got, want map[object.Key]object.Object) string {
	const most = 5
	var lines []string
	for key, w := range want {
		switch g, ok := got[key]; {
		case !ok:
			lines = append(lines, fmt.Sprintf("%v is missing", key))
		case identity(g) != identity(w):
			lines = append(lines, fmt.Sprintf("%v is %s instead of %s", key, identity(g), identity(w)))
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			lines = append(lines, fmt.Sprintf("%v should not be there", key))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines[:min(len(lines), most)], ", ")
}

func identity(o object.Object) string {
	return fmt.Sprintf("%s at %s", o.GetUID(), o.GetResourceVersion())
}

// unreached names a parent whose desired state has not been reached.
func (r *run) unreached() string {
	children, parents := map[object.Key][]object.Object{}, map[object.Key]object.Object{}
	for key, o := range (scope{resource: configResource}).objects(r.server) {
		if o.GetLabels()[roleLabel] == "parent" {
			parents[key] = o
		} else {
			children[parentOf(o)] = append(children[parentOf(o)], o)
		}
	}
	for key := range children {
		if parents[key] == nil {
			return fmt.Sprintf("%v is gone and still has children", key)
		}
	}
	for key, o := range parents {
		notes := o.GetAnnotations()
		if strconv.Itoa(len(children[key])) != notes[wantAnnotation] || notes[appliedAnnotation] != notes[valueAnnotation] {
			return fmt.Sprintf("%v has %d children, and wants %v", key, len(children[key]), notes)
		}
		for _, child := range children[key] {
			if child.GetAnnotations()[valueAnnotation] != notes[valueAnnotation] {
				return fmt.Sprintf("%v has the value %v, its parent %v", object.KeyOf(child), child.GetAnnotations(), notes)
			}
		}
	}
	return ""
}

// checkViews compares the content of the stores, field by field, with the server, and the replays with the stores.
func (r *run) checkViews() {
	for _, v := range r.views {
		title, store, truth := fmt.Sprint(v.scope()), v.objects(), v.scope().objects(r.server)
		for key, o := range store {
			if want := truth[key]; want != nil {
				r.checkContent(fmt.Sprintf("%s: %v", title, key), o, want)
			}
		}
		for _, color := range colors {
			r.checkIndex(title, color, v.byColor(color), store)
		}
		for _, h := range v.replays() {
			r.checkReplay(h)
			for key, o := range h.state {
				if store[key] != nil {
					r.checkContent(fmt.Sprintf("%s of %s: %v", h.name, title, key), o, store[key])
				}
			}
		}
	}
}

// checkIndex compares the objects under a color in an index with those in the store that have the color.
func (r *run) checkIndex(title, color string, found []object.Object, store map[object.Key]object.Object) {
	got, want := map[object.Key]object.Object{}, map[object.Key]object.Object{}
	for _, o := range found {
		got[object.KeyOf(o)] = o
	}
	for key, o := range store {
		if o.GetLabels()[colorLabel] == color {
			want[key] = o
		}
	}
	if d := difference(got, want); d != "" || len(found) != len(want) {
		r.diverge("the index of %s has under %s: %s", title, color, d)
	}
}

// checkReplay records broken promises to a handler, and counts its events.
func (r *run) checkReplay(h replay) {
	if h.err != nil {
		r.diverge("%s: %v", h.name, h.err)
	}
	r.mu.Lock()
	r.report.Events += h.events
	silent := h.rewinds > 0 && r.reported == 0
	r.mu.Unlock()
	if silent {
		r.diverge("%s went back in time, and no error says that history was rewritten", h.name)
	}
}

func (r *run) checkContent(what string, got, want object.Object) {
	if d := cmp.Diff(contentLike(want, got), content(got)); d != "" {
		r.diverge("%s: has (+) instead of (-)\n%s", what, d)
	}
}

// content returns the content of an object, whatever its Go type.
func content(o object.Object) map[string]any {
	var fields map[string]any
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	delete(fields, "kind")
	delete(fields, "apiVersion")
	return fields
}

// contentLike returns the content of want, or only its metadata if got has nothing else.
func contentLike(want, got object.Object) map[string]any {
	fields := content(want)
	if _, metadata := got.(*metav1.PartialObjectMetadata); metadata {
		return map[string]any{"metadata": fields["metadata"]}
	}
	return fields
}

// monitor checks the queues and the versions of the stores until unmonitor is called.
func (r *run) monitor(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	r.unmonitor = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		versions := make([]map[string]string, len(r.views))
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			for i, v := range r.views {
				status := v.status()
				r.checkQueues(status)
				versions[i] = r.checkVersions(status, versions[i])
			}
		}
	}()
}

// What may be queued for a handler: a deletion and an addition per key, and the batch it is
// processing, which is as large as what the network delivered at once.
const maxBatch = 1200 // small objects in a buffer of 256 KiB

func (r *run) checkQueues(s tidings.Status) {
	for _, h := range s.Handlers {
		limit := 2*r.world.keys() + maxBatch
		switch h.Policy {
		case tidings.Unbounded:
			continue
		case tidings.Block:
			limit = buffer + maxBatch + r.missed(s)
		}
		if h.Pending > limit {
			r.diverge("%s: %d deltas wait for %s", s.Resource, h.Pending, h.Name)
		}
	}
}

// missed returns how many changes a process that started from a file may have missed. They can
// exceed the queue's limit.
func (r *run) missed(s tidings.Status) int {
	if !slices.ContainsFunc(s.Parts, func(p tidings.PartStatus) bool { return p.File.Loaded > 0 }) {
		return 0
	}
	changes, err := strconv.Atoi(r.server.ResourceVersion())
	if err != nil {
		r.diverge("the server is at version %q: %v", r.server.ResourceVersion(), err)
	}
	r.changes = max(r.changes, changes) // a restored server has fewer
	return r.changes
}

// checkVersions compares the versions of an informer's namespaces with the previous ones, and returns them.
func (r *run) checkVersions(s tidings.Status, before map[string]string) map[string]string {
	now := map[string]string{}
	for _, p := range s.Parts {
		now[p.Namespace] = p.ResourceVersion
		if object.OlderResourceVersion(p.ResourceVersion, before[p.Namespace]) && p.Reflector.Rewrites == 0 {
			r.diverge("%s: the store went back from %s to %s", s.Resource, before[p.Namespace], p.ResourceVersion)
		}
	}
	return now
}

// reconciled counts a reconcile, which may be the first one of a process.
func (r *run) reconciled(first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Reconciles++
	if first {
		r.report.Terms++
	}
}

// close stops the views. No handler may be called afterwards.
func (r *run) close() {
	for _, v := range r.views {
		if err := v.stop(context.Background()); err != nil {
			r.diverge("cannot stop %v: %v", v.scope(), err)
		}
	}
	before := r.calls()
	r.world.write()
	time.Sleep(time.Hour)
	if after := r.calls(); after != before {
		r.diverge("handlers were called %d times after their informers had stopped", after-before)
	}
}

func (r *run) calls() (n int) {
	for _, v := range r.views {
		for _, h := range v.replays() {
			n += h.events
		}
	}
	return n
}

func (r *run) finish() {
	r.report.Requests = r.server.Count(tidingstest.Any)
	maps.Copy(r.report.Faults, r.server.FaultCounts())
}
