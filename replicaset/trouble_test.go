package replicaset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/internal/testseed"
)

// trouble is a lab with many faults.
type trouble struct {
	*lab
	r *rand.Rand // the test's

	// guarded by the lab's lock
	faults        *rand.Rand
	down          bool
	want, ceiling int // what is asked for, and the most that the cache may still ask for
}

// TestRandomTroublesConverge scales up and down at random while writes fail, responses get lost,
// pods are deleted, relabelled and die, and the server goes away. No creation may exceed a recently
// requested number, and in the end the number is right.
//
// Half of the runs are without the gate, so that the expectations stand alone.
func TestRandomTroublesConverge(t *testing.T) {
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) {
			r := testseed.Rand(t)
			opts := Options{Burst: 1 + r.IntN(20)}
			if i%2 == 1 {
				opts.Controller.MaxGateWait = -1
			}
			x := &trouble{lab: newLab(t, opts), r: r, faults: rand.New(rand.NewPCG(r.Uint64(), 0))}
			x.createSet(web(0))
			x.onCreate = x.check
			x.setFault(x.randomFault)
			for range 40 {
				pick(r, x.rescale, x.rescale, x.dropSome, x.runSome, x.relabelSome, x.outage, x.pass)()
				if r.IntN(3) == 0 {
					x.rest(time.Duration(r.IntN(int(30 * time.Second))))
				}
			}
			x.setFault(nil)
			x.settle(30 * time.Minute)
			x.expect(x.want)
		})
	}
}

func (x *trouble) check() {
	if n := len(x.ownedLocked()); n > x.ceiling {
		x.t.Errorf("%d replicas, and at most %d were asked for", n, x.ceiling)
	}
}

func (x *trouble) randomFault(string) error {
	switch {
	case x.down:
		return errBroken
	case x.faults.IntN(12) > 0:
		return nil
	default:
		return pick[error](x.faults, errBroken, lostAnswer{errBroken}, conflict("web"), apierrors.NewInternalError(errors.New("boom")),
			lostAnswer{apierrors.NewTimeoutError("slow", 0)}, apierrors.NewTooManyRequests("busy", 1))
	}
}

func (x *trouble) rescale() {
	n := x.r.IntN(40)
	x.mu.Lock()
	x.want, x.ceiling = n, max(x.ceiling, n)
	x.mu.Unlock()
	x.scale(n)
}

// rest lets time pass. After 10 seconds even a broken watch is back, and the cache has no older spec.
func (x *trouble) rest(d time.Duration) {
	x.settle(d)
	if d > 10*time.Second {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ceiling = x.want
	}
}

// dropSome deletes pods, as a user does.
func (x *trouble) dropSome() {
	for _, p := range x.some() {
		x.mu.Lock()
		if held := x.pods[p.Name]; held != nil {
			x.dropPod(held)
		}
		x.mu.Unlock()
	}
}

// runSome has kubelets run pods, some of which fail.
func (x *trouble) runSome() {
	for _, p := range x.some() {
		x.changePod(p.Name, func(p *corev1.Pod) {
			p.Spec.NodeName = fmt.Sprint("node-", x.r.IntN(3))
			p.Status.Phase = pick(x.r, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed)
		})
	}
}

// relabelSome takes pods out of the selector, as somebody does to debug them.
func (x *trouble) relabelSome() {
	pods := x.some()
	for _, p := range pods[:min(2, len(pods))] {
		x.changePod(p.Name, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
	}
}

func (x *trouble) some() []*corev1.Pod {
	pods := x.owned()
	return pods[:x.r.IntN(len(pods)+1)]
}

func (x *trouble) outage() {
	x.setDown(true)
	x.server.Stop()
	x.settle(time.Duration(x.r.IntN(20)) * time.Second)
	x.server.Start()
	x.setDown(false)
}

func (x *trouble) setDown(down bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.down = down
}

func (x *trouble) pass() {}
