package top

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// TestMemoryIsFlat: what is counted and kept stays bounded over an hour in which ten pods a second come, change and go;
// the pod that is written all the time stays known, and so does the fight over it.
func TestMemoryIsFlat(t *testing.T) {
	pods := resources.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind: "Pod"}
	began := time.Unix(1_000_000, 0)
	c := New(began)
	c.KeepChanges()
	now, writes := began, 0
	write := func(name, by string, of news.Type, changes ...diff.Change) {
		writes++
		c.Event(news.Event{Time: now, Type: of, Resource: pods, Namespace: "shop", Name: name,
			By: diff.Manager{Name: by}, Changes: changes})
	}
	set := func(old, new any) diff.Change {
		return diff.Change{Path: diff.Path{{Field: "status"}, {Field: "phase"}}, Op: diff.Changed, Old: old, New: new}
	}
	for n := range 10 * 3600 {
		now = began.Add(time.Duration(n) * time.Second / 10)
		name := fmt.Sprint("pod-", n)
		write(name, "a", news.Added)
		write(name, "kubelet", news.Modified, set("Pending", "Running"))
		write(name, "", news.Deleted)
		if n%10 == 0 {
			write("fought", "left", news.Modified, set("x", "y"))
			write("fought", "right", news.Modified, set("y", "x"))
		}
		for _, g := range Groups {
			if len(c.rows[g]) > maxRows {
				t.Fatalf("%d rows by %s", len(c.rows[g]), g)
			}
		}
		if len(c.fields) > maxFields || c.last.all.Len() > maxChanges || c.last.bytes > maxChangeBytes ||
			len(c.last.ofObject) > maxChanges {
			t.Fatalf("%d fields, %d changes of %d bytes", len(c.fields), c.last.all.Len(), c.last.bytes)
		}
	}
	r := c.Report(now, 10)
	if r.Writes != writes || r.Groups[ByObject][0].Name != "pods shop/fought" || len(r.Fights) != 1 {
		t.Errorf("%d writes of %d, first %q, %d fights", r.Writes, writes, r.Groups[ByObject][0].Name, len(r.Fights))
	}
}

// TestFightInFiveSeconds: two managers that set a field back and forth once a second are named within five seconds.
func TestFightInFiveSeconds(t *testing.T) {
	deploy := resources.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1",
		Resource: "deployments"}, Kind: "Deployment"}
	began := time.Unix(1_000_000, 0)
	c := New(began)
	for second := 1; second <= 4; second++ {
		by, old, new := "gitops", 5, 2
		if second%2 == 1 {
			by, old, new = "autoscaler", 2, 5
		}
		change := diff.Change{Path: diff.Path{{Field: "spec"}, {Field: "replicas"}}, Op: diff.Changed, Old: old,
			New: new}
		now := began.Add(time.Duration(second) * time.Second)
		c.Event(news.Event{Time: now, Type: news.Modified, Resource: deploy, Namespace: "shop", Name: "web",
			By: diff.Manager{Name: by}, Changes: []diff.Change{change}})
	}
	fights := c.Report(began.Add(5*time.Second), 10).Fights
	if len(fights) != 1 || fights[0].Managers != [2]string{"autoscaler", "gitops"} ||
		fights[0].Values != [2]any{5, 2} || fights[0].Path != "spec.replicas" {
		t.Errorf("%+v", fights)
	}
}
