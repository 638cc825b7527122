package server

import (
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

const (
	generations  = 4 // alive at the same time, plus one that is being created
	eventsPerPod = 4 // created, changed twice, deleted
)

// churn returns about n events, in whole generations. Generation after generation of pods is created, changed twice
// and deleted once there are newer ones. No two generations share a value that a cluster generates.
func churn(e Encoding, n, generationSize int) (events iter.Seq[[]byte], last uint64) {
	count := (n + generationSize*eventsPerPod - 1) / (generationSize * eventsPerPod)
	last = firstVersion + 1 + uint64(count*generationSize*eventsPerPod)
	return func(yield func([]byte) bool) {
		c := &churner{encoding: e, yield: yield, writer: corpus.NewWriter(firstVersion + 1)}
		var alive [][]*corev1.Pod
		for g := range count {
			pods := newGeneration(generationSize, g)
			if alive = append(alive, pods); !c.live(pods) {
				return
			}
			if len(alive) > generations {
				if !c.send(watch.Deleted, alive[0]) {
					return
				}
				alive = alive[1:]
			}
		}
		c.finish(alive, last)
	}, last
}

// newGeneration returns pods with unique names, which random names do not guarantee.
func newGeneration(size, number int) []*corev1.Pod {
	return slices.CompactFunc(wiretest.Pods(size, uint64(1000+number)), func(a, b *corev1.Pod) bool {
		return a.Namespace == b.Namespace && a.Name == b.Name
	})
}

// churner writes the events of a churn.
type churner struct {
	encoding Encoding
	writer   *corpus.Writer
	yield    func([]byte) bool
}

// live creates the pods and changes each of them twice.
func (c *churner) live(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	}
	return c.send(watch.Added, pods) && c.send(watch.Modified, pods) && c.send(watch.Modified, pods)
}

// finish deletes all pods but one, whose event has the version for which the client waits.
func (c *churner) finish(alive [][]*corev1.Pod, last uint64) {
	marker := alive[len(alive)-1][0]
	for _, pods := range alive {
		for _, pod := range pods {
			if pod != marker && !c.send(watch.Deleted, []*corev1.Pod{pod}) {
				return
			}
		}
	}
	for c.writer.Version() < last-1 {
		c.writer.Skip()
	}
	c.send(watch.Modified, []*corev1.Pod{marker})
}

// send sends one event for each of the pods. It returns false when the consumer has stopped.
func (c *churner) send(kind watch.EventType, pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if kind == watch.Modified {
			c.writer.Status(pod)
		} else {
			c.writer.Skip()
			pod.ResourceVersion = fmt.Sprint(c.writer.Version())
		}
		frame, err := c.encoding.Encode(kind, pod)
		if err != nil {
			panic(err) // pods always encode
		}
		if !c.yield(frame) {
			return false
		}
	}
	return true
}
