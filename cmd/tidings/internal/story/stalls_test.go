package story

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// says checks that lines of the story match patterns in this order.
func (d *desk) says(patterns ...string) {
	d.t.Helper()
	rest := d.lines
	for _, p := range patterns {
		i := 0
		for ; i < len(rest) && !regexp.MustCompile(p).MatchString(rest[i].text); i++ {
		}
		if i == len(rest) {
			d.t.Fatalf("the story does not go on with %q:\n%s", p, d.text())
		}
		rest = rest[i+1:]
	}
}

// play runs a test in virtual time.
func play(t *testing.T, test func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newDesk(t, "Pod")) })
}

// TestOpenLine: a line is told when it ends or stalls, goes on after that, and takes no longer than longest in any case.
func TestOpenLine(t *testing.T) {
	play(t, func(d *desk) {
		pod := d.create(podKind, "web", nil, nil)
		d.update(pod, onNode("node-1"))
		d.pass(stall - 500*time.Millisecond)
		if len(d.lines) > 0 || len(d.Open()) != 1 || !strings.Contains(d.Open()[0], "pod/web              on node-1") {
			t.Fatalf("told %q, open %q", d.text(), d.Open())
		}
		d.pass(time.Second)
		d.says(`pod/web +on node-1 → still so \+5\.\ds$`)
		d.update(pod, isRunning(0, false))
		d.pass(time.Second)
		d.update(pod, isRunning(0, true))
		d.says(`still so`, `pod/web +… running \+5\.5s → ready \+6\.5s$`)
		if len(d.Open()) > 0 || len(d.lives) > 0 {
			t.Errorf("open %q, %s", d.Open(), d.held())
		}
	})
	play(t, func(d *desk) {
		pod := d.create(podKind, "slow", nil, nil)
		for n := range 20 {
			d.pass(stall - time.Second)
			d.update(pod, func(o object) {
				setContainer(o, "initContainerStatuses", fmt.Sprint("init-", n), 0, exited(0, ""), nil)
			})
		}
		if began := d.lines[0].at; began.After(time.Now().Add(-40*time.Second)) || len(d.lines) < 2 {
			t.Errorf("80 seconds of a pod that always goes on:\n%s", d.text())
		}
	})
}

// TestClosed: the end of the program tells what is open.
func TestClosed(t *testing.T) {
	play(t, func(d *desk) {
		pod := d.create(podKind, "web", nil, nil)
		d.update(pod, onNode("node-1"))
		d.create(deploys, "api", nil, object{"spec": map[string]any{"template": map[string]any{}}})
		d.print(d.Close())
		d.says(`deploy/api +not yet rolled out`)
		d.says(`pod/web +on node-1$`)
	})
}

// TestWarningThatRepeats: it is told at once, again when its count has moved, ever more rarely, and at the end.
func TestWarningThatRepeats(t *testing.T) {
	play(t, func(d *desk) {
		pod := d.create(podKind, "web", nil, nil)
		report := d.warn(pod, nil, "Unhealthy", "Readiness probe failed: 503", 1)
		for n := range 3600 {
			d.pass(time.Second)
			d.warn(pod, report, "Unhealthy", "Readiness probe failed: 503", int64(n+2))
		}
		told := strings.Count(d.text(), "probe failed")
		if told < 5 || told > 20 {
			t.Errorf("%d lines in an hour:\n%s", told, d.text())
		}
		d.says(`! Readiness probe failed: 503$`, `503 \(10 times in 10s\)`, `503 \(30 times in 30s\)`)
		d.remove(pod)
		d.says(`503 \(70 times in 1m10s\)`, `503 \(3601 times in 1h0m\)`, `pod/web +… deleted`)
	})
}

// TestWarningsOfOneKind: each of several reporters writes an Event of its own, with a count of one.
func TestWarningsOfOneKind(t *testing.T) {
	play(t, func(d *desk) {
		pod := d.create(podKind, "web", nil, nil)
		for range 30 {
			d.warn(pod, nil, "FailedMount", "no such volume", 1)
			d.pass(time.Second)
		}
		d.says(`! FailedMount: no such volume`, `\(10 times in 10s\)`)
	})
}

// TestFlapping: what goes wrong and heals again and again takes no line each time, and the last line says how it is.
func TestFlapping(t *testing.T) {
	play(t, func(d *desk) {
		pod := d.create(podKind, "web", nil, nil)
		d.update(pod, isRunning(0, true))
		for range 300 {
			d.update(pod, isRunning(0, false))
			d.pass(500 * time.Millisecond)
			d.update(pod, isRunning(0, true))
			d.pass(500 * time.Millisecond)
		}
		if n := len(d.lines); n > 20 {
			t.Errorf("%d lines in five minutes:\n%s", n, d.text())
		}
		d.print(d.Close())
		d.says(`! no longer ready`, `… ready again`, `! no longer ready: .*times in.*\), ready again`)
	})
}

// TestHeld: a finalizer that holds an object is named, with who set it, whether the object's end was to be told in its
// own line, or in that of an owner that was deleted or scaled down.
func TestHeld(t *testing.T) {
	held := func(d *desk, o *thing) {
		d.update(o, func(o object) {
			_ = setList(o, []any{"example.com/archive"}, "metadata", "finalizers")
			owned := map[string]any{`v:"example.com/archive"`: map[string]any{}}
			_ = setList(o, []any{map[string]any{"manager": "archiver", "fieldsV1": map[string]any{
				"f:metadata": map[string]any{"f:finalizers": owned}}}}, "metadata", "managedFields")
		})
	}
	const why = `! held by the finalizer example\.com/archive, set by archiver`
	play(t, func(d *desk) {
		cm := d.create(configMaps, "held", nil, nil)
		held(d, cm)
		d.stop(cm)
		d.pass(7 * time.Second)
		d.says(`cm/held +deleted ` + why + ` \+5\.\ds`)
		d.update(cm, func(o object) { _ = setList(o, []any{"example.com/other"}, "metadata", "finalizers") })
		d.pass(7 * time.Second)
		d.says(why, `held by the finalizer example\.com/other`)
		d.remove(cm)
		d.says(why, `cm/held +… gone \+14s`)
	})
	play(t, func(d *desk) {
		rs := d.create(sets, "rs", nil, object{"spec": map[string]any{"replicas": int64(2)}})
		one, two := d.create(podKind, "one", rs, nil), d.create(podKind, "two", rs, nil)
		held(d, one)
		d.update(rs, func(o object) { set(o, int64(0), "spec", "replicas") })
		d.stop(one)
		d.stop(two)
		d.pass(4 * time.Second)
		d.remove(two)
		d.pass(12 * time.Second)
		d.says(`rs/rs +2 → 0: 1 of 2 pods gone`)
		d.says(`pod/one +stopping ` + why)
	})
	play(t, func(d *desk) {
		deploy := d.create(deploys, "web", nil, nil)
		rs := d.create(sets, "rs", deploy, nil)
		pod := d.create(podKind, "web-1", rs, nil)
		held(d, pod)
		d.remove(deploy)
		d.remove(rs)
		d.stop(pod)
		d.pass(12 * time.Second)
		d.says(`deploy/web +deleted, with 1 rs`)
		d.says(`pod/web-1 +stopping ` + why)
	})
}

// TestDeletedOnTheWay: of what is deleted before it got where it was sent, that is told, and what went with it.
func TestDeletedOnTheWay(t *testing.T) {
	play(t, func(d *desk) {
		deploy := d.create(deploys, "web", nil, object{"spec": map[string]any{"template": map[string]any{}}})
		rs := d.create(sets, "rs", deploy, nil)
		d.remove(deploy)
		d.remove(rs)
		d.pass(3 * time.Second)
		d.says(`deploy/web +deleted, with 1 rs`)
		if strings.Contains(d.text(), "not yet") {
			t.Error(d.text())
		}
	})
}

// TestOrder: what is open of an object is told before what has a line of its own.
func TestOrder(t *testing.T) {
	play(t, func(d *desk) {
		pod := d.create(podKind, "web", nil, nil)
		d.update(pod, onNode("node-1"))
		d.pass(2 * time.Second)
		d.update(pod, func(o object) { set(o, "blue", "metadata", "labels", "color") })
		d.update(pod, isRunning(0, true))
		d.says(`pod/web +on node-1$`, `pod/web +.*color`, `pod/web +… running and ready \+2\.0s`)
	})
}

// TestOvertaken: a ReplicaSet that is scaled down again while its pods stop has one line.
func TestOvertaken(t *testing.T) {
	play(t, func(d *desk) {
		rs := d.create(sets, "rs", nil, object{"spec": map[string]any{"replicas": int64(3)}})
		var pods []*thing
		for n := range 3 {
			pods = append(pods, d.create(podKind, fmt.Sprint("web-", n), rs, nil))
			d.update(pods[n], isRunning(0, true))
		}
		for n := range 2 {
			d.update(rs, func(o object) { set(o, int64(2-n), "spec", "replicas") })
			d.stop(pods[n])
			d.pass(time.Second)
		}
		d.remove(pods[0])
		d.remove(pods[1])
		d.says(`rs/rs +3 → 1: 2 pods gone \+2\.0s`)
	})
}

// TestFirstStatus: the first status of a custom resource, which is one change of all fields, is told as later ones are.
func TestFirstStatus(t *testing.T) {
	play(t, func(d *desk) {
		widget := d.create(widgets, "nightly", nil, object{"spec": map[string]any{"size": int64(1)}})
		d.update(widget, func(o object) {
			set(o, "Running", "status", "phase")
			setCondition(o, "Ready", "False", "JobRunning", "the job runs")
		})
		d.says(`widget/nightly +new`, `widget/nightly +Running`, `widget/nightly +not Ready: JobRunning: the job runs`)
	})
}
