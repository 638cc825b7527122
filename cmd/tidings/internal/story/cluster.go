package story

import (
	"fmt"
	"strings"
	"time"
)

// phaseFacts tells the phase of what has one.
func phaseFacts(_ *life, _ time.Time, before, after object) []fact {
	was, is := text(before, "status", "phase"), text(after, "status", "phase")
	if is == "" || was == is || before == nil {
		return nil
	}
	weight := said
	if is == "Failed" || is == "Lost" {
		weight = bad
	}
	if volume := text(after, "spec", "volumeName"); is == "Bound" && volume != "" {
		is += " to " + volume
	}
	return []fact{{weight: weight, text: is, by: nobody, topic: "phase"}}
}

// contentConditions are what a namespace that is being deleted says of what is left in it, and what that is about.
var contentConditions = []struct{ kind, topic string }{
	{"NamespaceContentRemaining", ""}, {"NamespaceFinalizersRemaining", "finalizer"},
	{"NamespaceDeletionContentFailure", "failure"}, {"NamespaceDeletionDiscoveryFailure", "discovery"},
}

// namespaceFacts tells what keeps a namespace that is being deleted.
func namespaceFacts(_ *life, _ time.Time, before, after object) (facts []fact) {
	for _, known := range contentConditions {
		c := condition(after, known.kind)
		if text(c, "status") != "True" || text(c, "message") == text(condition(before, known.kind), "message") {
			continue
		}
		f := fact{weight: state, text: because(c)}
		if known.topic != "" {
			f.weight, f.topic = bad, known.topic
		}
		facts = append(facts, f)
	}
	return facts
}

// nodeFacts tells what a node is fit for.
func nodeFacts(_ *life, _ time.Time, before, after object) (facts []fact) {
	if before == nil {
		return nil
	}
	if was, is := at(before, "spec", "unschedulable") == true, at(after, "spec", "unschedulable") == true; was != is {
		facts = append(facts, fact{weight: said, text: map[bool]string{true: "cordoned: takes no new pods",
			false: "uncordoned"}[is]})
	}
	for _, c := range list(after, "status", "conditions") {
		kind, status := text(c, "type"), text(c, "status")
		was := text(condition(before, kind), "status")
		switch {
		case was == status:
		case kind == "Ready" && status != "True":
			facts = append(facts, fact{weight: bad, topic: kind, text: "not ready: " + because(c)})
		case kind == "Ready" && was != "":
			facts = append(facts, fact{weight: said, by: nobody, text: "ready again"})
		case strings.HasSuffix(kind, "Pressure") && status == "True":
			facts = append(facts, fact{weight: bad, topic: kind, text: fmt.Sprint(kind, ": ", because(c))})
		}
	}
	return facts
}
