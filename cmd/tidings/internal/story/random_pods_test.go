package story

import (
	"fmt"
	"strings"
	"time"
)

// step is the next thing that happens to a pod.
func (h *history) step(p *thing) {
	o := p.object.Object
	phase := text(o, "status", "phase")
	switch {
	case deleting(o):
		if h.rand.IntN(3) > 0 && !h.isHeld(p) {
			h.note(p, "gone")
			h.remove(p)
		}
	case phase == "Failed" || phase == "Succeeded":
	case text(o, "spec", "nodeName") == "":
		h.schedule(p)
	case h.rand.IntN(6) == 0:
		h.evict(p)
	case h.rand.IntN(4) == 0:
		h.warnPod(p)
	case phase == "Pending":
		h.begin(p)
	default:
		h.live(p)
	}
}

// isHeld reports whether a deletion began less than ten seconds ago, and a finalizer holds it.
func (h *history) isHeld(p *thing) bool {
	if len(p.object.GetFinalizers()) == 0 {
		return false
	}
	began, _ := time.Parse(time.RFC3339, text(p.object.Object, "metadata", "deletionTimestamp"))
	return time.Since(began) < 10*time.Second
}

func (h *history) schedule(p *thing) {
	if h.rand.IntN(4) > 0 {
		h.note(p, "scheduled")
		h.update(p, onNode(fmt.Sprint("node-", h.rand.IntN(3))))
		return
	}
	why := fmt.Sprintf("0/%d nodes are available", 2+h.rand.IntN(3))
	h.note(p, why)
	h.warn(p, nil, "FailedScheduling", why, 1)
	h.update(p, func(o object) { setCondition(o, "PodScheduled", "False", "Unschedulable", why) })
	h.goesWrong(p, "cannot be scheduled: "+why)
}

func (h *history) evict(p *thing) {
	why := pick(h, []string{"Eviction API: evicting", "Taint manager: deleting due to NoExecute taint"})
	h.note(p, why)
	edit := func(o object) { setCondition(o, "DisruptionTarget", "True", "x", why) }
	if h.rand.IntN(2) == 0 { // both in one change, as after a queue has merged them
		h.update(p, func(o object) {
			edit(o)
			set(o, time.Now().Format(time.RFC3339), "metadata", "deletionTimestamp")
		})
	} else {
		h.update(p, edit)
		h.stopPod(p)
	}
	h.goesWrong(p, "evicted: "+why)
}

func (h *history) warnPod(p *thing) {
	reason := pick(h, []string{"Unhealthy", "FailedMount", "FailedPreStopHook", "Failed", "Strange"})
	message := fmt.Sprintf("%s went wrong, way %d", strings.ToLower(reason), h.rand.IntN(3))
	h.note(p, reason+": "+message)
	report := h.warn(p, nil, reason, message, 1)
	h.goesWrong(p, message)
	if h.rand.IntN(2) == 0 {
		n := int64(2 + h.rand.IntN(20))
		h.pass(time.Duration(h.rand.IntN(2000)) * time.Millisecond)
		h.warn(p, report, reason, message, n)
		h.note(p, fmt.Sprint(n, " times"))
		h.goesWrong(p, message, "times")
	}
}

// begin is what happens to a pod that is on a node.
func (h *history) begin(p *thing) {
	switch h.rand.IntN(6) {
	case 0:
		h.waits(p, "ContainerCreating", "")
	case 1:
		h.waits(p, "ErrImagePull", "no such image", "cannot pull web:1: no such image")
		h.warn(p, nil, "Failed", `Failed to pull image "web:1": rpc error: no such image`, 1)
		h.warn(p, nil, "Failed", "Error: ErrImagePull", 1)
	case 2:
		reason := pick(h, []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
		h.waits(p, reason, "something is missing", "cannot start: "+reason)
	case 3:
		n := number(named(list(p.object.Object, "status", "initContainerStatuses"), "name", "init"), "restartCount") + 1
		h.note(p, "init restarts")
		h.update(p, func(o object) {
			setContainer(o, "initContainerStatuses", "init", n, running(), exited(2, "Error"))
		})
		h.goesWrong(p, "init exited with 2")
	default:
		h.note(p, "runs")
		h.update(p, isRunning(0, h.rand.IntN(2) == 0))
	}
}

// waits has the container of a pod wait for a reason, which is news if it did not.
func (h *history) waits(p *thing, reason, message string, words ...string) {
	was := named(list(p.object.Object, "status", "containerStatuses"), "name", "main")
	if h.rand.IntN(2) == 0 {
		h.update(p, func(o object) {
			setContainer(o, "containerStatuses", "main", 0, waitsFor("ContainerCreating", ""), nil)
		})
		was = nil
	}
	if text(was, "state", "waiting", "reason") == reason {
		return
	}
	h.note(p, "waits: "+reason)
	h.update(p, func(o object) {
		setContainer(o, "containerStatuses", "main", 0, waitsFor(reason, message), nil)
	})
	if len(words) > 0 {
		h.goesWrong(p, words...)
	}
}

// live is what happens to a pod that runs.
func (h *history) live(p *thing) {
	o := p.object.Object
	main := named(list(o, "status", "containerStatuses"), "name", "main")
	restarts := number(main, "restartCount")
	wasReady := text(condition(o, "Ready"), "status") == "True"
	never := text(o, "spec", "restartPolicy") == "Never"
	switch h.rand.IntN(6) {
	case 0, 1:
		if anyStopped(o) {
			return
		}
		h.note(p, fmt.Sprint("ready: ", !wasReady))
		h.update(p, isRunning(restarts, !wasReady))
		if wasReady && at(main, "state", "running") != nil {
			h.goesWrong(p, "no longer ready")
		}
	case 2:
		if never {
			h.failed(p, "main exited with 3", func(o object) {
				setContainer(o, "containerStatuses", "main", restarts, exited(3, "Error"), nil)
			})
			return
		}
		code := int64(1 + h.rand.IntN(100))
		h.note(p, fmt.Sprint("restart after ", code))
		h.update(p, func(o object) {
			setContainer(o, "containerStatuses", "main", restarts+1, running(), exited(code, "OOMKilled"))
			setReady(o, false)
		})
		h.goesWrong(p, fmt.Sprintf("exited with %d (OOMKilled), start %d", code, restarts+2))
	case 3:
		if never {
			h.note(p, "sidecar exits")
			h.update(p, func(o object) { setContainer(o, "containerStatuses", "side", 0, running(), nil) })
			h.update(p, func(o object) {
				setContainer(o, "containerStatuses", "side", 0, exited(4, "Error"), nil)
				setReady(o, false)
			})
			h.goesWrong(p, "side exited with 4")
			return
		}
		h.crashLoop(p, restarts)
	case 4:
		if h.rand.IntN(3) == 0 {
			h.failed(p, "Evicted: no memory", func(o object) {
				set(o, "Evicted", "status", "reason")
				set(o, "no memory", "status", "message")
			})
		}
	case 5:
		if never {
			h.note(p, "succeeds")
			h.update(p, func(o object) {
				set(o, "Succeeded", "status", "phase")
				setContainer(o, "containerStatuses", "main", restarts, exited(0, "Completed"), nil)
			})
		}
	}
}

func (h *history) crashLoop(p *thing, restarts int64) {
	h.note(p, "crash loop")
	ended := exited(7, "Error")
	h.update(p, func(o object) {
		setContainer(o, "containerStatuses", "main", restarts, ended, nil)
		setReady(o, false)
	})
	h.update(p, func(o object) {
		setContainer(o, "containerStatuses", "main", restarts,
			waitsFor("CrashLoopBackOff", fmt.Sprintf("back-off %ds restarting failed container", 10*(restarts+1))), ended)
	})
	h.goesWrong(p, "keeps exiting with 7", fmt.Sprintf("back-off %ds", 10*(restarts+1)))
	h.pass(time.Duration(h.rand.IntN(10)) * time.Second)
	h.update(p, func(o object) {
		setContainer(o, "containerStatuses", "main", restarts+1, running(), ended)
	})
	h.goesWrong(p, fmt.Sprintf("exited with 7, start %d", restarts+2))
}

func (h *history) failed(p *thing, why string, edit func(object)) {
	h.note(p, "fails: "+why)
	h.update(p, func(o object) {
		edit(o)
		set(o, "Failed", "status", "phase")
	})
	h.goesWrong(p, "failed: "+why)
}
