package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

func kind(resource, kind string) resources.Resource {
	return resources.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "x", Version: "v1",
		Resource: resource}, Kind: kind}
}

// chain is news of web, a set that it owns and a pod that the set owns, a millisecond apart, and an Event about the
// pod.
func chain() (web, set, pod, event news.Event) {
	owned := func(uid string) map[string]any {
		return map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"uid": uid}}}}
	}
	at := func(n int) time.Time { return time.Unix(0, int64(n)*int64(time.Millisecond)) }
	web = news.Event{Time: at(0), Type: news.Added, Resource: kind("deployments", "Deployment"), Name: "web", UID: "1"}
	set = news.Event{Time: at(1), Type: news.Added, Resource: kind("sets", "Set"), Name: "web-1", UID: "2",
		Object: owned("1")}
	pod = news.Event{Time: at(2), Type: news.Added, Resource: kind("pods", "Pod"), Name: "web-1-a", UID: "3",
		Object: owned("2")}
	event = news.Event{Time: at(3), Type: news.Added, Resource: kind("events", "Event"), Name: "e", UID: "4",
		Object: map[string]any{
			"involvedObject": map[string]any{"kind": "Pod", "name": "web-1-a",
				"uid": "3"}, "reason": "Scheduled", "message": "to a node"}}
	return web, set, pod, event
}

func printer() *Printer {
	return New(Options{Root: resources.Target{Resource: kind("deployments", "Deployment"), Object: "web"}, Tree: true})
}

// TestAnyOrderOfWatches: whichever watch is ahead, nothing is lost, and owners are told before what they own.
func TestAnyOrderOfWatches(t *testing.T) {
	web, set, pod, event := chain()
	for _, order := range [][]news.Event{
		{web, set, pod, event}, {web, pod, set, event}, {web, event, pod, set}, {pod, set, event, web},
		{event, pod, set, web}, {set, web, event, pod},
	} {
		p, text, names := printer(), "", ""
		for _, e := range order {
			names += " " + e.Name
			text += string(p.Event(e))
		}
		rest := text
		for _, want := range []string{"Deployment web  created", "  Set web-1  created  ≈ ", "    Pod web-1-a  created  ≈ ", "    Pod web-1-a  Scheduled: to a node"} {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("in the order%s, %q is not told in its place:\n%s", names, want, text)
			}
			rest = after
		}
		if n := strings.Count(text, "created"); n != 3 {
			t.Errorf("in the order%s, %d creations are told:\n%s", names, n, text)
		}
		if len(p.waiting.events) > 0 {
			t.Errorf("in the order%s, something still waits: %v", names, p.waiting.events)
		}
	}
}

// TestDeletedBeforeItsOwnerIsKnown: both its events waited.
func TestDeletedBeforeItsOwnerIsKnown(t *testing.T) {
	web, set, pod, _ := chain()
	gone := pod
	gone.Type = news.Deleted
	p := printer()
	p.Event(web)
	p.Event(pod)
	p.Event(gone)
	if text := string(p.Event(set)); !strings.Contains(text, "Pod web-1-a  created") ||
		!strings.Contains(text, "Pod web-1-a  deleted") {
		t.Errorf("told:\n%s", text)
	}
}

// TestWaitingIsBounded in number and time.
func TestWaitingIsBounded(t *testing.T) {
	web, set, pod, _ := chain()
	p := printer()
	p.Event(web)
	p.Event(pod)
	stranger := pod
	stranger.Object = map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"uid": "nobody"}}}}
	for n := range 3 * maxWaiting {
		stranger.UID = fmt.Sprint("s", n)
		p.Event(stranger)
	}
	if n := len(p.waiting.order); n > maxWaiting || len(p.waiting.events["nobody"]) > maxWaiting {
		t.Errorf("%d events wait", n)
	}
	late := stranger
	late.Time = stranger.Time.Add(2 * within)
	p.Event(late)
	if n := len(p.waiting.order); n != 1 || len(p.waiting.events["nobody"]) != 1 {
		t.Errorf("%d events wait after a while", n)
	}
	if text := string(p.Event(set)); strings.Contains(text, "Pod") {
		t.Errorf("a pod that was forgotten is told:\n%s", text)
	}
}
