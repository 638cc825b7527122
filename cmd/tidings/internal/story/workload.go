package story

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
)

func replicasAndImages(o object) string {
	template := at(o, "spec", "template")
	if n, ok := at(o, "spec", "replicas").(int64); ok {
		return fmt.Sprint(n, " × ", images(template))
	}
	return images(template)
}

// revision says for which revision of a Deployment a ReplicaSet is.
func revision(o object) string {
	replicas := plural(number(o, "spec", "replicas"), "replica")
	if r := text(o, "metadata", "annotations", "deployment.kubernetes.io/revision"); r != "" {
		return "revision " + r + ", " + replicas
	}
	return replicas + " × " + images(at(o, "spec", "template"))
}

// workloadFacts tells how a Deployment, StatefulSet or DaemonSet gets to where it was sent.
func workloadFacts(l *life, now time.Time, before, after object) (facts []fact) {
	switch {
	case !reflect.DeepEqual(at(before, "spec", "template"), at(after, "spec", "template")):
		l.goal, l.began = "rolled out", now
	case number(before, "spec", "replicas") != number(after, "spec", "replicas") && l.goal == "":
		l.goal, l.began = "scaled", now
	}
	for _, c := range list(after, "status", "conditions") {
		facts = append(facts, conditionOfWorkload(l, before, after, c)...)
	}
	if l.goal == "" {
		return facts
	}
	n := countsOf(after)
	if !n.done {
		return append(facts, fact{weight: state, text: fmt.Sprintf("%d of %d updated, %d ready", n.updated,
			n.want, n.ready)})
	}
	return append(facts, fact{weight: said, by: nobody, text: fmt.Sprintf("%s in %s: %d of %d ready", l.goal,
		roughly(now.Sub(l.began)), n.ready, n.want)},
		fact{weight: done})
}

func conditionOfWorkload(l *life, before, after object, c any) []fact {
	kind, status := text(c, "type"), text(c, "status")
	if text(condition(before, kind), "status") == status {
		return nil
	}
	n := countsOf(after)
	switch {
	case kind == "Progressing" && status == "False":
		return []fact{{weight: bad, topic: "progress", text: fmt.Sprintf("no progress: %d of %d updated: %s",
			n.updated, n.want, because(c))}}
	case kind == "Available" && status == "False" && before != nil && condition(before, kind) != nil:
		return []fact{{weight: bad, topic: "available", text: fmt.Sprintf("only %d of %d ready", n.ready, n.want)}}
	case kind == "Available" && status == "True":
		return l.healed("available", fact{weight: said, by: nobody,
			text: fmt.Sprintf("available again: %d of %d ready", n.ready, n.want)})
	case kind == "ReplicaFailure" && status == "True":
		return []fact{{weight: bad, topic: refusal(because(c)), text: because(c)}}
	}
	return nil
}

// refusal returns what the refusal of a new pod is about: other causes are other troubles.
func refusal(message string) (topic string) {
	for _, cause := range []string{"exceeded quota", "denied the request"} {
		if strings.Contains(message, cause) {
			return "create: " + cause
		}
	}
	return "create"
}

// counts are the pods of a workload.
type counts struct {
	want, updated, ready int64
	done                 bool
}

func countsOf(o object) counts {
	status := at(o, "status")
	n := counts{want: 1, updated: number(status, "updatedReplicas"), ready: number(status, "readyReplicas")}
	if at(o, "spec", "replicas") != nil {
		n.want = number(o, "spec", "replicas")
	}
	total, available := number(status, "replicas"), number(status, "availableReplicas")
	if at(status, "desiredNumberScheduled") != nil { // a DaemonSet
		n = counts{want: number(status, "desiredNumberScheduled"),
			updated: number(status, "updatedNumberScheduled"), ready: number(status, "numberReady")}
		total, available = n.want, number(status, "numberAvailable")
	}
	if rev := text(status, "updateRevision"); rev != "" && rev == text(status, "currentRevision") { // a StatefulSet
		n.updated = cmp.Or(n.updated, number(status, "currentReplicas"))
	}
	n.done = number(status, "observedGeneration") == number(o, "metadata", "generation") &&
		n.updated == n.want && total == n.want &&
		available == n.want && n.ready == n.want
	return n
}

// setFacts tells how a ReplicaSet is scaled: the pods tell the rest.
func setFacts(_ *life, _ time.Time, before, after object) (facts []fact) {
	was, is := number(before, "spec", "replicas"), number(after, "spec", "replicas")
	if before != nil && was != is {
		f := fact{weight: said, text: fmt.Sprintf("%d → %d", was, is)}
		if is < was {
			f.weight, f.children = shrink, int(was-is)
		}
		facts = append(facts, f)
	}
	if c := condition(after, "ReplicaFailure"); becomes(before, after, "ReplicaFailure", "True") {
		facts = append(facts, fact{weight: bad, text: because(c), topic: refusal(because(c))})
	}
	return facts
}

func jobSize(o object) string {
	template := images(at(o, "spec", "template"))
	if n := number(o, "spec", "completions"); n > 1 {
		return fmt.Sprintf("%d × %s, %d at a time", n, template, number(o, "spec", "parallelism"))
	}
	return template
}

// jobFacts tells how a Job ends.
func jobFacts(l *life, now time.Time, before, after object) (facts []fact) {
	l.goal = "complete"
	ok, failed := number(after, "status", "succeeded"), number(after, "status", "failed")
	how := fmt.Sprintf("%d of %d succeeded", ok, max(1, number(after, "spec", "completions")))
	if failed > 0 {
		how += ", " + plural(failed, "pod") + " failed"
	}
	switch c := condition(after, "Failed"); {
	case becomes(before, after, "Complete", "True"):
		return []fact{{weight: said, by: nobody, text: "complete in " + roughly(now.Sub(l.began)) + ": " + how},
			{weight: done}}
	case becomes(before, after, "Failed", "True"):
		return []fact{{weight: bad, topic: "failed", text: "failed: " + because(c) + ": " + how}, {weight: done}}
	case becomes(before, after, "Suspended", "True"):
		return []fact{{weight: said, text: "suspended"}, {weight: done}}
	case text(condition(after, "Complete"), "status") == "True", text(c, "status") == "True":
		return []fact{{weight: done}}
	}
	return nil
}

// autoscalerFacts tells what an autoscaler wants, and why it cannot.
func autoscalerFacts(_ *life, _ time.Time, before, after object) (facts []fact) {
	was, is := number(before, "status", "desiredReplicas"), number(after, "status", "desiredReplicas")
	if before != nil && was != is {
		facts = append(facts, fact{weight: said, text: fmt.Sprintf("wants %d → %d replicas", was, is), by: nobody})
	}
	for _, kind := range []string{"AbleToScale", "ScalingActive"} {
		if becomes(before, after, kind, "False") {
			facts = append(facts, fact{weight: bad, text: because(condition(after, kind)), topic: kind})
		}
	}
	return facts
}
