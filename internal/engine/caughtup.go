package engine

import (
	"context"
	"time"

	"github.com/tidings/tidings/object"
)

// caughtUpAfter is how long a resumed watch must be quiet to count as caught up, unless it reaches
// the version that the server was at before. A server sends remembered events at once, and likewise
// the error that it does not remember that far.
const caughtUpAfter = 200 * time.Millisecond

// OnResume implements intake.Holder: a watch that resumes from the file is open. recent is the
// version that the server was at, if known.
func (p *part[T]) OnResume(watch context.Context, recent string) {
	if p.listed.Load() {
		return
	}
	if recent != "" && !object.OlderResourceVersion(p.file.savedVersion(), recent) {
		p.caughtUp() // nothing has happened since the file was saved
		return
	}
	p.recent = recent
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
		var quiet time.Duration
		if !p.adding.Load() { // once adding is false, newsAt is up to date
			quiet = time.Since(p.made) - time.Duration(p.newsAt.Load())
		}
		if quiet >= caughtUpAfter {
			p.caughtUp()
			return
		}
		timer.Reset(caughtUpAfter - quiet)
	}
}

// resumedTo records that the watch has brought the part to a version.
func (p *part[T]) resumedTo(version string) {
	if p.listed.Load() {
		return
	}
	p.newsAt.Store(int64(time.Since(p.made)))
	if p.recent != "" && !object.OlderResourceVersion(version, p.recent) {
		p.caughtUp()
	}
}

// caughtUp marks the part as listed: it has everything that the server had when the watch was resumed.
func (p *part[T]) caughtUp() {
	inf := p.inf
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed || p.listed.Load() {
		return
	}
	p.listed.Store(true)
	inf.mu.Lock()
	inf.checkSynced()
	inf.mu.Unlock()
	inf.deferredCalls.add(inf.notify)
}
