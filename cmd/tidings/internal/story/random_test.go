package story

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

// TestNothingWrongIsLost plays random histories, and holds the story against a model that knows nothing of how it is
// told: whatever goes wrong has a line with the object's name and the words for it, printed when or after it happened.
func TestNothingWrongIsLost(t *testing.T) {
	testseed.Each(t, 60, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{desk: newDesk(t, "Pod"), rand: rand.New(rand.NewPCG(seed, 0))}
			for range 300 {
				h.next()
				if h.rand.IntN(3) == 0 {
					h.pass(time.Duration(h.rand.IntN(4000)) * time.Millisecond)
				}
			}
			h.pass(6 * time.Second) // no line that stands still may take longer
			h.print(h.Close())
			h.check()
		})
	})
}

// history is a cluster in which things go wrong at random.
type history struct {
	*desk
	rand                          *rand.Rand
	pods, sets, deployments, jobs []*thing
	wrong                         []misfortune
	log                           []string
}

// misfortune is something that went wrong, and the words that one line must have.
type misfortune struct {
	at    time.Time
	words []string
}

// goesWrong notes what the story must say about an object.
func (h *history) goesWrong(o *thing, words ...string) {
	h.wrong = append(h.wrong, misfortune{time.Now(), append(words, o.name())})
}

func (h *history) check() {
	before := map[string]int{} // how often something of a topic had gone wrong
	for _, w := range h.wrong {
		told := h.tells(w.at, w.words...)
		if !told && before[w.name()+w.topic()] >= atOnce { // in ever-new words: the last ones have to do
			told = h.tells(w.at, w.name(), "the last of")
		}
		if !told {
			h.t.Errorf("%s: nothing says %q", w.at.Format("15:04:05"), w.words)
		}
		before[w.name()+w.topic()]++
	}
	h.ordered()
	if h.t.Failed() {
		h.t.Logf("what happened:\n%s\nthe story:\n%s", strings.Join(h.log, "\n"), h.text())
	}
}

// name is the object with which it went wrong.
func (w misfortune) name() string { return w.words[len(w.words)-1] }

// topic is what it is about.
func (w misfortune) topic() string {
	for _, topic := range [][]string{{"keeps exiting"}, {"exited with"}, {"cannot start", "failed went wrong"}} {
		if slices.ContainsFunc(topic, func(words string) bool { return strings.Contains(w.words[0], words) }) {
			return topic[0]
		}
	}
	first, rest, _ := strings.Cut(w.words[0], " ")
	second, _, _ := strings.Cut(rest, " ")
	return first + " " + second
}

// tells reports whether a line that was told at this time or later has all the words.
func (h *history) tells(since time.Time, words ...string) bool {
	return slices.ContainsFunc(h.lines, func(line printed) bool {
		return !line.at.Before(since) && !slices.ContainsFunc(words, func(word string) bool {
			return !strings.Contains(line.text, word)
		})
	})
}

// ordered checks that the lines about one object are in the order of their times, and that no line begins before the
// last that was told when it was told, by more than an open line may wait.
func (h *history) ordered() {
	last := map[string]string{}
	for _, line := range h.lines {
		if strings.Contains(line.text, " pods ") { // the begin of the first of them
			continue
		}
		clock, rest, _ := strings.Cut(line.text, " ")
		name, _, _ := strings.Cut(rest, " ")
		if clock < last[name] {
			h.t.Errorf("a line about %s goes back to %s from %s: %s", name, clock, last[name], line.text)
		}
		last[name] = clock
	}
}

func pick[T any](h *history, from []T) T { return from[h.rand.IntN(len(from))] }

// alive returns those that are not gone.
func alive(all []*thing) []*thing {
	return slices.DeleteFunc(slices.Clone(all), func(o *thing) bool { return o.gone })
}

func (h *history) next() {
	h.pods, h.sets, h.deployments, h.jobs = alive(h.pods), alive(h.sets), alive(h.deployments), alive(h.jobs)
	switch n := h.rand.IntN(20); {
	case len(h.deployments) == 0 || n == 0:
		h.deploy()
	case n == 1:
		h.job()
	case n == 2:
		h.scale(pick(h, h.sets))
	case n == 3:
		h.warnSet(pick(h, h.sets))
	case n == 4:
		h.troubleOf(pick(h, h.deployments))
	case n == 5 && len(h.jobs) > 0:
		h.endJob(pick(h, h.jobs))
	case n == 6 && len(h.deployments) > 2:
		h.drop(pick(h, h.deployments))
	case len(h.pods) > 0:
		h.step(pick(h, h.pods))
	}
}

func (h *history) note(o *thing, what string) {
	h.log = append(h.log, fmt.Sprint(time.Now().Format("15:04:05.000 "), o.name(), " ", what))
}

func (h *history) name(of string) string { return fmt.Sprintf("%s-%04d", of, h.made) }

func (h *history) deploy() {
	d := h.create(deploys, h.name("deploy"), nil, object{"metadata": map[string]any{"generation": int64(1)},
		"spec": map[string]any{"replicas": int64(3), "template": map[string]any{}}})
	set := h.create(sets, h.name("set"), d, object{"spec": map[string]any{"replicas": int64(0)}})
	h.deployments, h.sets = append(h.deployments, d), append(h.sets, set)
	h.note(d, "created with "+set.name())
	h.scaleTo(set, 1+h.rand.IntN(3))
}

func (h *history) job() {
	j := h.create(jobKind, h.name("job"), nil, object{"spec": map[string]any{"template": map[string]any{}}})
	h.jobs = append(h.jobs, j)
	h.pod(j)
}

func (h *history) pod(owner *thing) *thing {
	policy := "Always"
	if owner.resource.Kind == "Job" {
		policy = "Never"
	}
	p := h.create(podKind, h.name("pod"), owner, object{"spec": map[string]any{"restartPolicy": policy},
		"status": map[string]any{"phase": "Pending"}})
	h.note(p, "created by "+owner.name())
	h.pods = append(h.pods, p)
	return p
}

// podsOf returns the pods of an owner that are not being deleted.
func (h *history) podsOf(owner *thing) (pods []*thing) {
	for _, p := range alive(h.pods) {
		if ownerOf(p) == string(owner.object.GetUID()) && !deleting(p.object.Object) {
			pods = append(pods, p)
		}
	}
	return pods
}

func ownerOf(o *thing) string { return owner(o.object.Object) }

func (h *history) scale(set *thing) {
	h.scaleTo(set, h.rand.IntN(8))
}

// scaleTo does what a ReplicaSet's controller does.
func (h *history) scaleTo(rs *thing, replicas int) {
	if deleting(rs.object.Object) {
		return
	}
	has := h.podsOf(rs)
	h.note(rs, fmt.Sprint("scaled to ", replicas))
	h.update(rs, func(o object) { set(o, int64(replicas), "spec", "replicas") })
	for range replicas - len(has) {
		h.pod(rs)
	}
	for _, p := range has[min(len(has), replicas):] {
		h.stopPod(p)
	}
}

func (h *history) stopPod(p *thing) {
	h.stop(p)
	if h.rand.IntN(4) == 0 {
		h.hold(p)
	}
}

// hold gives an object that is being deleted a finalizer that holds it for longer than a line waits.
func (h *history) hold(o *thing) {
	h.note(o, "held")
	finalizer := fmt.Sprintf("example.com/f%d", h.rand.IntN(3))
	h.update(o, func(o object) { set(o, []any{finalizer}, "metadata", "finalizers") })
	h.goesWrong(o, "held by the finalizer", finalizer)
}

func (h *history) warnSet(rs *thing) {
	what := pick(h, []string{
		fmt.Sprintf(`Error creating: pods "x-%d" is forbidden: exceeded quota: compute`, h.made),
		fmt.Sprintf(`Error creating: admission webhook "policy.example.com" denied the request: no-%d`, h.rand.IntN(3)),
	})
	h.note(rs, what)
	words := "exceeded quota"
	if strings.Contains(what, "webhook") {
		words = "denied the request"
	}
	h.goesWrong(rs, words)
	if h.rand.IntN(2) == 0 && !deleting(rs.object.Object) {
		h.update(rs, func(o object) {
			setCondition(o, "ReplicaFailure", "False", "", "")
		})
		h.update(rs, func(o object) {
			setCondition(o, "ReplicaFailure", "True", "FailedCreate", strings.TrimPrefix(what, "Error creating: "))
		})
	}
	h.warn(rs, nil, "FailedCreate", what, 1)
}

func (h *history) troubleOf(d *thing) {
	if deleting(d.object.Object) {
		return
	}
	switch h.rand.IntN(3) {
	case 0:
		was := text(condition(d.object.Object, "Progressing"), "status")
		h.update(d, func(o object) { setCondition(o, "Progressing", "False", "ProgressDeadlineExceeded", "timed out") })
		if was != "False" {
			h.note(d, "no progress")
			h.goesWrong(d, "no progress", "timed out")
		}
	case 1:
		was := text(condition(d.object.Object, "Available"), "status")
		h.update(d, func(o object) { setCondition(o, "Available", "False", "MinimumReplicasUnavailable", "") })
		if was == "True" {
			h.note(d, "unavailable")
			h.goesWrong(d, "! only")
		}
	default:
		h.update(d, func(o object) {
			setCondition(o, "Available", "True", "", "")
			setCondition(o, "Progressing", "True", "", "")
		})
	}
}

func (h *history) endJob(j *thing) {
	kind := pick(h, []string{"Complete", "Failed"})
	if condition(j.object.Object, "Complete") != nil || condition(j.object.Object, "Failed") != nil {
		h.note(j, "deleted")
		h.remove(j)
		for _, p := range h.podsOf(j) {
			h.stopPod(p)
		}
		return
	}
	h.note(j, kind)
	h.update(j, func(o object) { setCondition(o, kind, "True", "BackoffLimitExceeded", "too often") })
	if kind == "Failed" {
		h.goesWrong(j, "failed: too often")
	}
}

// drop deletes a Deployment and what it owns, as the garbage collector does.
func (h *history) drop(d *thing) {
	h.note(d, "deleted")
	h.remove(d)
	for _, rs := range alive(h.sets) {
		if ownerOf(rs) != string(d.object.GetUID()) {
			continue
		}
		pods := h.podsOf(rs)
		h.remove(rs)
		for _, p := range pods {
			h.stopPod(p)
		}
	}
}
