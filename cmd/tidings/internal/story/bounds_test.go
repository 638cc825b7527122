package story

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func uidOf(n int) types.UID { return types.UID(fmt.Sprintf("uid-%06d", n)) }

// held is how much a teller remembers.
func (t *Teller) held() string {
	return fmt.Sprint(len(t.lives), " lives, ", len(t.order), " in order, ", len(t.gone), " gone, ", len(t.seen),
		" kinds, ", len(t.left), " left out")
}

// TestEverNewObjects: what is remembered has an end, whatever comes. Pods that never get anywhere, Warnings about
// objects that nobody knows, and changed fields are the worst, as nothing ends them.
func TestEverNewObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for n := range maxLives + 1000 {
			d.create(podKind, fmt.Sprint("stuck-", n), nil, nil)
			gone := d.create(podKind, fmt.Sprint("gone-", n), nil, nil)
			d.warn(gone, nil, "FailedMount", fmt.Sprint("no volume ", n), 1)
			d.remove(gone)
			cm := d.create(configMaps, fmt.Sprint("cm-", n), nil, object{"data": map[string]any{"a": "0"}})
			d.update(cm, func(o object) { set(o, "1", "data", "a") })
			if n%1000 == 0 {
				d.pass(time.Second)
				d.lines = nil
			}
		}
		if len(d.lives) > maxLives || len(d.order) != len(d.lives) || len(d.gone) > 100 || len(d.left) > 10 {
			t.Error(d.held())
		}
	})
}

// TestLongValues: of a field that is set again and again no more is remembered, and told, than one can read.
func TestLongValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		values := [2]string{strings.Repeat("a", 1<<18), strings.Repeat("a", 1<<18-1) + "b"}
		before := memory()
		var all []*thing
		for n := range 20 {
			all = append(all, d.create(widgets, fmt.Sprint("w-", n), nil, object{"spec": map[string]any{"v": ""}}))
			for flip := range 4 {
				d.update(all[n], func(o object) { set(o, values[flip%2]+fmt.Sprint(n), "spec", "v") })
			}
			all[n].object = nil
		}
		if grown := memory() - before; grown > 2<<20 {
			t.Errorf("%d MB for 20 objects", grown>>20)
		}
		if d.pass(time.Minute); !strings.Contains(d.text(), "flaps between") {
			t.Error("a field flapped, and nobody says so")
		}
		for _, line := range d.lines {
			if len(line.text) > 500 {
				t.Fatalf("%d bytes: %.200s", len(line.text), line.text)
			}
		}
	})
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestManyTopics: an object with ever-new troubles takes no more than others.
func TestManyTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		pod := d.create(podKind, "web", nil, nil)
		for n := range 500 {
			d.warn(pod, nil, fmt.Sprint("Reason", n), "no", 1)
		}
		if n := len(d.lives[string(pod.object.GetUID())].troubles); n > maxTroubles {
			t.Errorf("%d troubles of one pod", n)
		}
		for n := range 500 {
			if !strings.Contains(d.text(), fmt.Sprintf("Reason%d: ", n)) {
				t.Fatalf("trouble %d was not told", n)
			}
		}
	})
}

// TestForgottenIsTold: what has to make room for newer objects is told first, as far as it is.
func TestForgottenIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		first := d.create(podKind, "first", nil, nil)
		d.update(first, onNode("node-1"))
		other := d.create(podKind, "other", nil, nil)
		report := d.warn(other, nil, "Unhealthy", "no answer", 1)
		d.warn(other, report, "Unhealthy", "no answer", 7)
		for n := range maxLives + 1 {
			d.create(podKind, fmt.Sprint("pod-", n), nil, nil)
		}
		for _, want := range []string{`pod/first +on node-1`, `pod/other +! no answer \(7 times`} {
			if !regexp.MustCompile(want).MatchString(d.text()) {
				t.Errorf("the story does not say %q:\n%.2000s", want, d.text())
			}
		}
	})
}

// TestChatter: of a controller that reports every round over many objects, some rounds are told, and the others counted.
func TestChatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for n := range 1200 {
			page := &thing{resource: widgets, object: &unstructured.Unstructured{Object: map[string]any{}}}
			page.object.SetName(fmt.Sprint("page-", n%40))
			d.report(page, "Normal", "Synced", fmt.Sprint("rendered in ", n%7, "ms"), 1)
			if n == 600 {
				d.report(page, "Normal", "Promoted", "now the front page", 1)
				d.warn(page, nil, "Broken", "no template", 1)
			}
			d.pass(50 * time.Millisecond)
		}
		d.says(`widget/page-0 +Synced: rendered in 0ms`)
		d.says(`widget/page-0 +Promoted: now the front page`, `widget/page-0 +! Broken: no template`)
		if n := strings.Count(d.text(), "Synced"); n > 6*maxOrdinary+maxOrdinary {
			t.Errorf("%d lines in a minute:\n%s", n, d.text())
		}
		if left := d.LeftOut(); !regexp.MustCompile(`^11\d\d of repeated Events$`).MatchString(left) {
			t.Errorf("left out: %q", left)
		}
	})
}

// TestEverNewWords: however often what goes wrong is put in other words, a topic gets a few lines at
// once and then one now and then, and the last of them has the last words.
func TestEverNewWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		set := d.create(sets, "web", nil, nil)
		for n := range 600 {
			why := fmt.Sprintf(`Error creating: pods "web-%04d" is forbidden: exceeded quota`, n)
			d.warn(set, nil, "FailedCreate", why, 1)
			d.pass(time.Second)
		}
		d.print(d.Close())
		if n := strings.Count(d.text(), "exceeded quota"); n < 5 || n > 20 {
			t.Errorf("%d lines for ten minutes of refusals:\n%s", n, d.text())
		}
		if !strings.Contains(d.text(), "web-0599") {
			t.Errorf("the last refusal is not told:\n%s", d.text())
		}
	})
}
