package engine

import (
	"context"
	"time"
)

// caughtUpAfter is how long a resumed watch must be quiet to count as caught up, unless it reaches
// the version that the server was at before. A server sends remembered events at once, and likewise
// the error that it does not remember that far.
const caughtUpAfter = 200 * time.Millisecond

// OnResume implements intake.Holder: a watch that resumes from the file is open. recent is the
// version that the server was at, if known.
func (p *part[T]) OnResume(watch context.Context, recent string) {
	if p.beginning.over() {
		return
	}
	if !p.beginning.catchUp(recent) {
		p.caughtUp()
		return
	}
	p.inf.wg.Go(func() {
		defer p.caller.Join()() // it may make calls that others deferred: see afterApply
		p.awaitQuiet(watch)
	})
}

// awaitQuiet waits until the watch has been quiet for long enough, or has ended.
func (p *part[T]) awaitQuiet(watch context.Context) {
	timer := time.NewTimer(caughtUpAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-watch.Done():
		}
		if watch.Err() != nil {
			return
		}
		quiet := p.beginning.quiet(time.Since(p.made))
		if quiet >= caughtUpAfter {
			p.caughtUp()
			return
		}
		timer.Reset(caughtUpAfter - quiet)
	}
}

// resumedTo records that the watch has brought the part to a version.
func (p *part[T]) resumedTo(version string) {
	if p.beginning.over() {
		return
	}
	p.beginning.news(time.Since(p.made))
	if p.beginning.hasReached(version) {
		p.caughtUp()
	}
}

// caughtUp ends the beginning: the part has everything that the server had when the watch was resumed.
func (p *part[T]) caughtUp() {
	inf := p.inf
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed || p.beginning.over() {
		return
	}
	p.begun()
	inf.deferredCalls.add(inf.notify)
}
