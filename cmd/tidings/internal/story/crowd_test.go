package story

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

// scaled creates pods of a ReplicaSet.
func (d *desk) scaled(rs *thing, from, to int) (pods []*thing) {
	d.update(rs, func(o object) { set(o, int64(to), "spec", "replicas") })
	for n := from; n < to; n++ {
		pods = append(pods, d.create(podKind, fmt.Sprintf("%s-%03d", rs.name(), n), rs, nil))
	}
	return pods
}

// TestManyAlike: fifty pods that are created at once take a line; those with which something goes wrong have their own.
func TestManyAlike(t *testing.T) {
	play(t, func(d *desk) {
		rs := d.create(sets, "web", nil, object{"spec": map[string]any{"replicas": int64(3)}})
		pods := d.scaled(rs, 3, 53)
		for n, pod := range pods {
			d.update(pod, onNode(fmt.Sprint("node-", n%3)))
		}
		d.pass(1800 * time.Millisecond)
		for n, pod := range pods {
			switch n {
			case 7, 21:
				d.update(pod, func(o object) {
					setContainer(o, "containerStatuses", "main", 0, waitsFor("ImagePullBackOff", "web:1: not found"), nil)
				})
			default:
				d.update(pod, isRunning(0, false))
			}
			if n == 25 {
				d.pass(500 * time.Millisecond)
			}
		}
		open := d.Open()
		if len(open) != 1 || !regexp.MustCompile(`rs/web +48 pods on 3 nodes → running \+`).MatchString(open[0]) {
			t.Errorf("open are %q", open)
		}
		for n, pod := range pods {
			if n != 7 && n != 21 {
				d.update(pod, isRunning(0, true))
			}
		}
		d.pass(2 * time.Second)
		d.says(`rs/web +3 → 53$`, `rs/web +48 pods on 3 nodes → running \+1\.8s to 2\.3s → ready \+2\.3s$`)
		for _, name := range []string{"web-010", "web-024"} {
			d.says(`pod/` + name + ` +on node-\d ! cannot pull web:1: not found`)
		}
		if len(d.lines) != 5 {
			t.Errorf("%d lines:\n%s", len(d.lines), d.text())
		}
	})
}

// TestFewAlike: three pods have a line each, in the order in which they get there.
func TestFewAlike(t *testing.T) {
	play(t, func(d *desk) {
		rs := d.create(sets, "web", nil, object{"spec": map[string]any{"replicas": int64(0)}})
		pods := d.scaled(rs, 0, 3)
		for n := range pods {
			d.pass(100 * time.Millisecond)
			d.update(pods[2-n], isRunning(0, true))
		}
		d.says(`0 → 3`, `pod/web-002 +running and ready`, `pod/web-001 +running and ready`,
			`pod/web-000 +running and ready`)
	})
}

// TestLastWords: what goes wrong with a pod right after it was ready is told after that, and at once.
func TestLastWords(t *testing.T) {
	play(t, func(d *desk) {
		rs := d.create(sets, "web", nil, object{"spec": map[string]any{"replicas": int64(0)}})
		pods := d.scaled(rs, 0, 10)
		for _, pod := range pods[:6] {
			d.update(pod, isRunning(0, true))
		}
		d.update(pods[2], isRunning(0, false))
		d.says(`pod/web-002 +running and ready`, `pod/web-002 +! no longer ready`)
		d.pass(10 * time.Second)
		d.says(`rs/web +5 pods running and ready`)
		d.says(`rs/web +4 pods still so \+5`)
		d.update(pods[9], isRunning(0, true))
		d.pass(time.Second)
		d.says(`still so`, `pod/web-009 +… running and ready \+1\ds`)
	})
}

var countOfPods = regexp.MustCompile(`^\S+ rs/(\S+) +(\d+) pods (.*)$`)

// TestEveryPodIsCounted: whatever random pods do, each of those that got ready is named on a line that says so, or
// counted on one, and none is on two.
func TestEveryPodIsCounted(t *testing.T) {
	testseed.Each(t, 40, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			d, r := newDesk(t, "Pod"), rand.New(rand.NewPCG(seed, 0))
			ready := map[string]int{}
			for owner := range 4 {
				rs := d.create(sets, fmt.Sprint("set", owner), nil, object{"spec": map[string]any{"replicas": int64(0)}})
				waits := d.scaled(rs, 0, 1+r.IntN(40))
				for len(waits) > 0 {
					i := r.IntN(len(waits))
					if r.IntN(8) == 0 {
						d.pass(time.Duration(r.IntN(2000)) * time.Millisecond)
					}
					if d.advancePod(r, waits[i]) {
						ready[rs.name()]++
					} else if !waits[i].gone {
						continue
					}
					waits = append(waits[:i], waits[i+1:]...)
				}
			}
			d.print(d.Close())
			told := map[string]int{}
			for _, line := range d.lines {
				if m := countOfPods.FindStringSubmatch(line.text); m != nil && strings.Contains(m[3], "ready") {
					n, _ := strconv.Atoi(m[2])
					told[m[1]] += n
				} else if i := strings.Index(line.text, " pod/set"); i >= 0 && strings.Contains(line.text, "ready") {
					told[line.text[i+5:i+9]]++
				}
			}
			for owner, n := range ready {
				if told[owner] != n {
					t.Errorf("%s: %d pods got ready, %d are told:\n%s", owner, n, told[owner], d.text())
				}
			}
		})
	})
}

// advancePod does the next thing to a pod, and reports whether it got ready.
func (d *desk) advancePod(r *rand.Rand, pod *thing) bool {
	o := pod.object.Object
	switch {
	case r.IntN(30) == 0:
		d.remove(pod)
	case text(o, "spec", "nodeName") == "":
		d.update(pod, onNode(fmt.Sprint("node-", r.IntN(3))))
	case r.IntN(15) == 0:
		d.warn(pod, nil, "FailedMount", "no volume", 1)
	case text(o, "status", "phase") == "":
		d.update(pod, isRunning(0, false))
	default:
		d.update(pod, isRunning(0, true))
		return true
	}
	return false
}
