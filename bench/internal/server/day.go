package server

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// DaySteps is the number of phases of a day: one for each hour, from midnight on.
const DaySteps = 24

// DayStep returns the phase of the i-th hour. The phases must be run in order; the first starts the day.
func DayStep(i int) Phase { return Phase(fmt.Sprintf("day-%02d", i)) }

// day is a cluster from midnight to midnight. By day there are two thirds more pods than at night,
// as if scaled up and down; every pod is replaced once a day, as by rollouts; new pods become
// ready, and others change occasionally.
type day struct {
	encoding Encoding
	night    int // number of pods at midnight
	changes  int // number of changes per step, of pods that are not new

	rng    *rand.Rand
	writer *corpus.Writer
	alive  []*corev1.Pod // the oldest first
}

// addDay adds the phases of a day that begins with the pods of the initial list.
func (c *content) addDay(config Config) {
	d := &day{encoding: c.encoding, night: config.Objects, changes: config.Day / DaySteps}
	last := uint64(firstVersion)
	for i := range DaySteps {
		added, deleted := d.turnover(i)
		events := added*(eventsPerPod-1) + deleted + d.changes
		last += uint64(events)
		c.phases[DayStep(i)], c.plan.Last[DayStep(i)], c.plan.Events[DayStep(i)] = d.step(i), last, events
	}
}

// at returns the number of pods before the i-th step.
func (d *day) at(i int) int { return PodsAt(d.night, i) }

// PodsAt returns the number of pods i hours after midnight, given their number at night.
func PodsAt(night, i int) int {
	return night + int(float64(night)*(1-math.Cos(2*math.Pi*float64(i)/DaySteps))/3)
}

func (d *day) turnover(i int) (added, deleted int) {
	replaced := d.at(i) / DaySteps
	grown := d.at(i+1) - d.at(i)
	return replaced + max(0, grown), replaced + max(0, -grown)
}

// step returns the events of the i-th hour. The last one changes a pod that stays.
func (d *day) step(i int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if i == 0 {
			d.begin()
		}
		added, deleted := d.turnover(i)
		c := &churner{encoding: d.encoding, writer: d.writer, yield: yield}
		fresh, gone := newcomers(added, i), d.alive[:deleted]
		d.alive = append(d.alive[deleted:len(d.alive):len(d.alive)], fresh...)
		if !c.live(fresh) || !c.send(watch.Deleted, gone) {
			return
		}
		for range d.changes {
			if !c.send(watch.Modified, []*corev1.Pod{d.alive[d.rng.IntN(len(d.alive))]}) {
				return
			}
		}
	}
}

// begin resets the state to midnight, with the pods of the initial list.
func (d *day) begin() {
	d.rng, d.writer, d.alive = rand.New(rand.NewPCG(8, 8)), corpus.NewWriter(firstVersion), nil
	objects, err := corpus.Pods.Make(d.night)
	if err != nil {
		panic(err) // the corpus exists
	}
	d.rng.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	for _, obj := range objects {
		d.alive = append(d.alive, obj.(*corev1.Pod))
	}
}

// newcomers returns exactly n pods, whose workloads, nodes and names are unique.
func newcomers(n, step int) []*corev1.Pod {
	pods := wiretest.Pods(n, uint64(5000+step))
	for i, pod := range pods {
		pod.Name = fmt.Sprintf("%s-%d-%d", pod.Name, step, i)
	}
	return pods
}
