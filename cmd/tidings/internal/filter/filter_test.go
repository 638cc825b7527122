package filter

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// modified returns an event in which the fields at these paths of fields have changed.
func modified(kind string, paths ...string) news.Event {
	e := news.Event{Type: news.Modified, Name: "web", By: diff.Manager{Name: "kubelet"}, Resource: resources.Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}, Kind: kind,
	}}
	for _, p := range paths {
		var path diff.Path
		for field := range strings.SplitSeq(p, ".") {
			path = append(path, diff.Step{Field: field})
		}
		e.Changes = append(e.Changes, diff.Change{Path: path, Op: diff.Changed, Old: "a", New: "b"})
	}
	return e
}

// ending is modified of an object that nothing keeps from being deleted at once.
func ending(paths ...string) news.Event {
	e := modified("Pod", paths...)
	e.Ending = true
	return e
}

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		flags Flags
		event news.Event
		shown string // the paths that are left; "" hides the event
	}{
		"all of it":             {Flags{}, modified("Pod", "spec.a", "status.b"), "spec.a status.b"},
		"one part":              {Flags{Sections: []string{"spec"}}, modified("Pod", "spec.a", "status.b"), "spec.a"},
		"another part":          {Flags{Sections: []string{"metadata"}}, modified("Pod", "spec.a"), ""},
		"a path":                {Flags{Paths: []string{"spec.template"}}, modified("Deployment", "spec.template.x.y", "spec.templates", "spec"), "spec.template.x.y spec"},
		"a path with dots":      {Flags{Paths: []string{"spec.template…"}}, modified("Deployment", "spec.template.x"), "spec.template.x"},
		"any depth":             {Flags{Paths: []string{"**.image"}}, modified("Pod", "spec.a.image", "spec.images"), "spec.a.image"},
		"one step":              {Flags{Paths: []string{"spec.*.image"}}, modified("Pod", "spec.a.image", "spec.a.b.image"), "spec.a.image"},
		"ignored":               {Flags{Ignore: []string{"status"}}, modified("Pod", "spec.a", "status.b"), "spec.a"},
		"by its manager":        {Flags{Managers: []string{"kube*"}}, modified("Pod", "spec.a"), "spec.a"},
		"by another manager":    {Flags{Managers: []string{"helm"}}, modified("Pod", "spec.a"), ""},
		"another operation":     {Flags{Ops: []string{"add", "delete"}}, modified("Pod", "spec.a"), ""},
		"its text":              {Flags{Text: "SPEC.A"}, modified("Pod", "spec.a"), "spec.a"},
		"another text":          {Flags{Text: "nothing"}, modified("Pod", "spec.a"), ""},
		"a renewal":             {Flags{}, modified("Lease", "spec.renewTime"), ""},
		"a renewal with --all":  {Flags{All: true}, modified("Lease", "spec.renewTime"), "spec.renewTime"},
		"another holder":        {Flags{}, modified("Lease", "spec.holderIdentity", "spec.renewTime"), "spec.holderIdentity"},
		"renewTime elsewhere":   {Flags{}, modified("Widget", "spec.renewTime"), "spec.renewTime"},
		"a heartbeat":           {Flags{}, modified("Node", "status.conditions.lastHeartbeatTime"), ""},
		"an event again":        {Flags{}, modified("Event", "count", "lastTimestamp"), ""},
		"an event that changed": {Flags{}, modified("Event", "count", "message"), "message"},
		"the end begins":        {Flags{}, ending("metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"), ""},
		"the end and more":      {Flags{}, ending("metadata.deletionTimestamp", "spec.a"), "spec.a"},
		"a slow end":            {Flags{}, modified("Pod", "metadata.deletionTimestamp"), "metadata.deletionTimestamp"},
		"no change":             {Flags{}, modified("Pod"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := c.flags.Compile(news.Text{}.Event)
			if err != nil {
				t.Fatal(err)
			}
			e := c.event
			shown := f.Apply(&e)
			var paths []string
			for _, change := range e.Changes {
				paths = append(paths, change.Path.String())
			}
			if got := strings.Join(paths, " "); shown != (c.shown != "") || shown && got != c.shown {
				t.Errorf("shown %v: %s, want %s", shown, got, c.shown)
			}
			if !shown && f.Hidden() == "" {
				t.Error("what was hidden is not counted")
			}
		})
	}
}

// TestWholeObjects: who asks for changes of fields is not told of objects that come and go, unless by --op.
func TestWholeObjects(t *testing.T) {
	for want, flags := range map[bool][]Flags{
		true:  {{}, {Ignore: []string{"spec"}}, {Paths: []string{"spec"}, Ops: []string{"add", "delete"}}},
		false: {{Paths: []string{"spec"}}, {Sections: []string{"spec"}}},
	} {
		for _, of := range flags {
			f, err := of.Compile(news.Text{}.Event)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range []news.Event{{Type: news.Added}, {Type: news.Deleted}} {
				e.Resource.Kind = "Pod"
				if got := f.Apply(&e); got != want {
					t.Errorf("%+v: %s is shown: %t", of, e.Type, got)
				}
			}
			if e := (news.Event{Type: news.Added, Initial: true}); len(of.Ops) == 0 && !f.Apply(&e) {
				t.Errorf("%+v: an initial object is hidden", of)
			}
		}
	}
}

func TestHiddenIsCounted(t *testing.T) {
	f, err := Flags{Ignore: []string{"spec.x"}}.Compile(news.Text{}.Event)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []news.Event{
		modified("Lease", "spec.renewTime"), modified("Lease", "spec.renewTime"), modified("Node", "status.lastHeartbeatTime"),
		modified("Pod", "status.observedGeneration", "status.phase"), modified("Pod", "spec.x"),
	} {
		f.Apply(&e)
	}
	const want = "hidden: 2 lease renewals, 1 heartbeat, 1 ticking fields of changes that are shown (--all shows them); 1 did not match the filters"
	if got := f.Hidden(); got != want {
		t.Errorf("got %q", got)
	}
}

func TestWrongFlags(t *testing.T) {
	for want, flags := range map[string]Flags{
		`--op "create"`:                  {Ops: []string{"create"}},
		`--path ""`:                      {Paths: []string{""}},
		`--ignore "."`:                   {Ignore: []string{"."}},
		`--manager "["`:                  {Managers: []string{"["}},
		`"specs": did you mean spec?`:    {Sections: []string{"specs"}},
		`--changes "Status"`:             {Sections: []string{"Status"}},
		`"spec.x": want a field at the`:  {Sections: []string{"spec.x"}},
		`"spec..x": nothing stands betw`: {Paths: []string{"spec..x"}},
		`--path "["`:                     {Paths: []string{"["}},
		`--path "spec]"`:                 {Paths: []string{"spec]"}},
		`--ignore "a[b[c]"`:              {Ignore: []string{"a[b[c]"}},
	} {
		if _, err := flags.Compile(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
