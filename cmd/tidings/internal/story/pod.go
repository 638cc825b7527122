package story

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// podFacts tells the life of a pod: to which node, running, ready; and all that goes wrong with its containers.
func podFacts(l *life, _ time.Time, before, after object) (facts []fact) {
	if node := text(after, "spec", "nodeName"); node != "" && text(before, "spec", "nodeName") == "" {
		facts = append(facts, fact{weight: step, text: "on " + node})
	}
	if c := condition(after, "PodScheduled"); becomes(before, after, "PodScheduled", "False") {
		facts = append(facts, fact{weight: bad, text: "cannot be scheduled: " + because(c), topic: "schedule"})
	}
	if c := condition(after, "DisruptionTarget"); becomes(before, after, "DisruptionTarget", "True") {
		facts = append(facts, fact{weight: bad, text: "evicted: " + because(c), topic: "evicted"})
	}
	final := text(after, "spec", "restartPolicy") == "Never" && !slices.Contains(over, text(after, "status", "phase"))
	for _, field := range containerFields {
		was := list(before, "status", field)
		for _, c := range list(after, "status", field) {
			was := named(was, "name", text(c, "name"))
			facts = append(facts, containerFacts(was, c, field == "initContainerStatuses")...)
			if final && at(was, "state", "terminated") == nil && number(c, "state", "terminated", "exitCode") != 0 {
				facts = append(facts, fact{weight: bad, topic: "crash",
					text: text(c, "name") + " exited with " + exit(at(c, "state", "terminated"))})
			}
		}
	}
	return append(facts, phaseOfPod(l, before, after, len(facts) > 0 || anyStopped(after))...)
}

var (
	// containerFields are where a pod's containers report, and over the phases of a pod that has ended.
	containerFields = []string{"initContainerStatuses", "containerStatuses"}
	over            = []string{"Failed", "Succeeded"}
)

// phaseOfPod tells where a pod is on its way. exited says that a container changed along with it.
func phaseOfPod(l *life, before, after object, exited bool) []fact {
	was, is := text(before, "status", "phase"), text(after, "status", "phase")
	ready := becomes(before, after, "Ready", "True")
	switch {
	case is == "Succeeded" && was != is:
		return []fact{{weight: end, text: "succeeded"}}
	case is == "Failed" && was != is:
		return []fact{{weight: bad, text: "failed: " + whyFailed(before, after), topic: "failed"}}
	case ready && l.troubles["crash"] != nil:
		return []fact{{weight: step, text: "running"}}
	case ready && l.troubles["unready"] != nil:
		return l.healed("unready", fact{weight: end, text: "ready again"})
	case ready && was != "Running":
		return []fact{{weight: end, text: "running and ready"}}
	case ready:
		return []fact{{weight: end, text: "ready"}}
	case is == "Running" && was != is:
		return []fact{{weight: step, text: "running"}}
	case !exited && is == "Running" && becomes(before, after, "Ready", "False") &&
		text(condition(before, "Ready"), "status") == "True":
		return []fact{{weight: bad, text: "no longer ready: " + because(condition(after, "Ready")), topic: "unready"}}
	}
	return nil
}

// anyStopped reports whether a container does not run: what becomes of it says more than that the pod is not ready.
func anyStopped(pod object) bool {
	return slices.ContainsFunc(list(pod, "status", "containerStatuses"), func(c any) bool {
		return at(c, "state", "running") == nil
	})
}

// whyFailed says why a pod failed: the container that exited last, as far as that is seen.
func whyFailed(before, o object) (why string) {
	if reason := text(o, "status", "reason"); reason != "" {
		return reason + ": " + text(o, "status", "message")
	}
	for _, field := range containerFields {
		for _, c := range list(o, "status", field) {
			ended := at(c, "state", "terminated")
			was := named(list(before, "status", field), "name", text(c, "name"))
			if number(ended, "exitCode") != 0 && (why == "" || at(was, "state", "terminated") == nil) {
				why = text(c, "name") + " exited with " + exit(ended)
			}
		}
	}
	return cmp.Or(why, because(condition(o, "Ready")))
}

// exit says how a container ended.
func exit(ended any) string {
	code := fmt.Sprint(number(ended, "exitCode"))
	if reason := text(ended, "reason"); reason != "" && reason != "Error" {
		code += " (" + reason + ")"
	}
	return code
}

// ordinary are the reasons for which every container waits before it starts.
var ordinary = map[string]bool{"ContainerCreating": true, "PodInitializing": true, "": true}

// containerFacts tells what goes wrong with a container.
func containerFacts(was, is any, first bool) (facts []fact) {
	name := text(is, "name")
	if n := number(is, "restartCount"); n > number(was, "restartCount") {
		ended := at(is, "lastState", "terminated")
		if ended == nil {
			ended = at(was, "state", "terminated")
		}
		why := fmt.Sprintf("%s exited with %s, start %d", name, exit(ended), n+1)
		facts = append(facts, fact{weight: bad, text: why, topic: "crash"})
	}
	waits := at(is, "state", "waiting")
	switch reason := text(waits, "reason"); {
	case ordinary[reason]:
		if reason != "" {
			facts = append(facts, fact{weight: state, text: "starting"})
		}
	case reflect.DeepEqual(waits, at(was, "state", "waiting")):
	case reason == "ErrImagePull" || reason == "ImagePullBackOff":
		facts = append(facts, fact{weight: bad, topic: "image", text: "cannot pull " + text(is, "image") +
			": " + cause(text(waits, "message"))})
	case reason == "CrashLoopBackOff":
		after, _, _ := strings.Cut(text(waits, "message"), " restarting")
		facts = append(facts, fact{weight: bad, topic: "backoff",
			text: fmt.Sprintf("%s keeps exiting with %s: %s", name,
				exit(at(is, "lastState", "terminated")), after)})
	default:
		facts = append(facts, fact{weight: bad, topic: "start",
			text: fmt.Sprintf("%s cannot start: %s: %s", name, reason, text(waits, "message"))})
	}
	if first && at(was, "state", "terminated") == nil && at(is, "state", "terminated") != nil &&
		number(is, "state", "terminated", "exitCode") == 0 {
		facts = append(facts, fact{weight: step, text: name + " done"})
	}
	return facts
}

// cause returns the end of an error that others have wrapped.
func cause(message string) string {
	parts := strings.Split(message, ": ")
	return parts[len(parts)-1]
}
