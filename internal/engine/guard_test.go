package engine

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

func newGuard(found *[]Mutation) *guard {
	return &guard{resource: "configmaps", log: usercode.NewThrottledLog(slog.New(slog.DiscardHandler)), report: func(m Mutation) { *found = append(*found, m) }}
}

func namedSettings(i int) settings {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
}

// TestGuardChecksEverySampleOnce writes to every remembered object: each write is reported once, when the sample is replaced or at the end.
func TestGuardChecksEverySampleOnce(t *testing.T) {
	var found []Mutation
	g := newGuard(&found)
	const remembered = 3*guardSamples + 5
	for i := range remembered {
		o := namedSettings(i)
		g.remember(o, guardEveryChange)
		o.Data = map[string]string{"written": "to"}
		if want := max(0, i+1-guardSamples); len(found) != want {
			t.Fatalf("%d reports after %d samples, want %d", len(found), i+1, want)
		}
	}
	g.end()
	g.end() // finds nothing more
	if len(found) != remembered {
		t.Fatalf("%d reports, want %d", len(found), remembered)
	}
	for i, m := range found[:remembered-guardSamples] {
		if m.Key.Name != fmt.Sprint(i) || m.Resource != "configmaps" || m.Handler != "" {
			t.Errorf("report %d is %+v", i, m)
		}
	}
	for i := range guardSamples + 1 { // it starts over
		g.remember(namedSettings(i), guardEveryChange)
	}
	if len(found) != remembered || len(g.samples) != guardSamples {
		t.Errorf("%d reports and %d samples after the end, want %d and %d", len(found), len(g.samples), remembered, guardSamples)
	}
}

// referring is an object whose methods panic without the metadata that it refers to.
type referring struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

func (r *referring) DeepCopyObject() runtime.Object {
	return &referring{TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta.DeepCopy()}
}

// TestGuardNamesWhatCannotTellItsName: somebody wrote to an object, whose methods panic since then.
func TestGuardNamesWhatCannotTellItsName(t *testing.T) {
	var found []Mutation
	g := newGuard(&found)
	o := &referring{ObjectMeta: &metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	g.remember(o, guardEveryChange)
	o.ObjectMeta = nil
	g.end()
	if len(found) != 1 || found[0].Key.String() != "shop/a" {
		t.Errorf("found %+v", found)
	}
}

// TestGuardSamples counts the guard's checks.
func TestGuardSamples(t *testing.T) {
	var found []Mutation
	g := newGuard(&found)
	deliveries := 0
	for n := range uint64(3 * guardEveryDelivery) {
		if g.sampled(n + 1) {
			deliveries++
		}
	}
	if !g.sampled(1) || deliveries != 3 {
		t.Errorf("%d of %d deliveries are sampled, want 3 with the first", deliveries, 3*guardEveryDelivery)
	}
	g.remember(namedSettings(0), guardEveryChange-1)
	if len(g.samples) != 0 {
		t.Error("a change was remembered too early")
	}
	g.remember(namedSettings(1), 1)
	g.remember(namedSettings(2), 1)
	g.remember(namedSettings(3), 5*guardEveryChange)
	if len(g.samples) != 2 || g.samples[0].obj.GetName() != "1" || g.samples[1].obj.GetName() != "3" {
		t.Errorf("remembered %v, want 1 and 3", g.samples)
	}
	off := newGuard(&found)
	off.off = true
	off.corrupted("spec")
	off.remember(namedSettings(0), 10*guardEveryChange)
	if off.sampled(1) || len(off.samples) != 0 || len(found) != 0 {
		t.Error("a guard that is off looks")
	}
	g.corrupted("spec")
	if len(found) != 1 || found[0].Field != "spec" || g.found.Load() != 1 {
		t.Errorf("reported %+v", found)
	}
}

// TestMutationsAreLogged with who wrote to what, and what to do.
func TestMutationsAreLogged(t *testing.T) {
	var log strings.Builder
	g := &guard{resource: "configmaps", log: usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil)))} // no report function
	o := namedSettings(1)
	check := g.watch(o, object.KeyOf(o))
	check("innocent")
	if g.found.Load() != 0 || log.Len() > 0 {
		t.Errorf("%d found, logged %s", g.found.Load(), log.String())
	}
	o.Data = map[string]string{"written": "to"}
	check("writer")
	if text := log.String(); g.found.Load() != 1 || !strings.Contains(text, "DeepCopyObject") || !strings.Contains(text, "key=1 handler=writer") {
		t.Errorf("%d found, logged %s", g.found.Load(), text)
	}
}

// TestWritesToIndexedObjectsAreFound: after a write, the object's present values are not those it is indexed under.
func TestWritesToIndexedObjectsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []Mutation
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{
			Logger: slog.New(slog.DiscardHandler), NoWatchList: true, OnMutation: func(m Mutation) { found = append(found, m) },
		}, NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		inf.AddIndex("color", func(o settings) []string { return []string{o.Labels["color"]} })
		first := namedSettings(1)
		first.ResourceVersion, first.Labels = "15", map[string]string{"color": "red"}
		p := inf.currentParts()[0]
		p.Add([]object.Delta[settings]{{Type: object.Added, Key: object.KeyOf(first), Object: first}}, "15")
		first.Labels["color"] = "blue"
		next := namedSettings(1)
		next.ResourceVersion, next.Labels = "16", map[string]string{"color": "green"}
		p.Add([]object.Delta[settings]{{Type: object.Updated, Key: object.KeyOf(next), Object: next}}, "16")
		synctest.Wait()
		if len(found) != 1 || found[0].Field != "index color" || found[0].Key != object.KeyOf(first) || found[0].Resource != "configmaps" || inf.Status().Mutations != 1 {
			t.Errorf("%+v", found)
		}
		inf.Halt(nil)
		<-inf.done
	})
}
