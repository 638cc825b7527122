package timeline

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// What a timeline knows stays bounded over an hour in which ten pods a second come and go, half of them of the story.
func TestMemoryIsFlat(t *testing.T) {
	deploy := resources.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment"}
	pods := resources.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}
	p := New(Options{Root: resources.Target{Resource: deploy, Object: "web"}, Tree: true})
	now := time.Unix(0, 0)
	p.Event(news.Event{Time: now, Type: news.Added, Resource: deploy, Name: "web", UID: "web", Initial: true})
	told := 0
	for n := range 36_000 {
		now = now.Add(100 * time.Millisecond)
		owner := []string{"web", "other"}[n%2]
		e := news.Event{Time: now, Type: news.Added, Resource: pods, Name: fmt.Sprint("pod-", n), UID: fmt.Sprint(n), Object: map[string]any{
			"metadata": map[string]any{"ownerReferences": []any{map[string]any{"uid": owner}}},
		}}
		told += len(p.Event(e))
		e.Type = news.Deleted
		if text := p.Event(e); (len(text) > 0) != (owner == "web") {
			t.Fatalf("the deletion of a pod of %s: %q", owner, text)
		}
	}
	if told == 0 {
		t.Error("no pod of the story was told")
	}
	if len(p.objects) > maxGone+1 || len(p.gone) > maxGone || len(p.roots) != 1 {
		t.Errorf("%d objects, %d gone, %d roots", len(p.objects), len(p.gone), len(p.roots))
	}
}
