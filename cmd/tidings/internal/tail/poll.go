package tail

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/reflector"
)

// poll checks the state of every informer and of the output, and shows what is new and the progress
// of the initial lists.
func (t *tail) poll() error {
	if t.screen.ReaderGone() {
		return cli.ErrOutputClosed
	}
	if t.pending() > 0 {
		t.screen.Progress(t.progress())
	} else if t.keyboard != nil {
		t.showLive()
	}
	if err := t.tick(t.ctx, time.Now()); err != nil {
		return err
	}
	observations := make([]observation, len(t.follows))
	for i, f := range t.follows {
		observations[i] = f.observe()
		if n := observations[i].panics; n > 0 {
			return fmt.Errorf("%s: showing a change failed because of a bug in this program; %d changes are missing", f.where(), n)
		}
	}
	if err := t.checkServer(observations); err != nil {
		return err
	}
	for i, f := range t.follows {
		if err := t.checkFollow(f, observations[i]); err != nil {
			return err
		}
	}
	return t.showHidden(t.ctx, time.Now(), false)
}

// checkFollow shows what has happened to one list and watch alone, and each only once: that it
// fails for a reason of its own, however often it is retried, that it continues, or that it has
// started over. What affects the whole server is shown once for all.
func (t *tail) checkFollow(f *follow, o observation) error {
	if !f.synced || t.server.outage != nil {
		return nil
	}
	seen := f.shown
	f.shown.errors = o.errors
	s := f.status(o, news.Relisted)
	if o.failure != nil {
		f.failed = time.Now()
	}
	switch {
	case o.failure != nil && o.failure.Reason != f.failing && o.failure.Reason != reflector.Expired:
		f.failing = o.failure.Reason
		s.Kind = news.Failing
		s.Message = strings.TrimPrefix(f.explain(o.failure), f.where()+": ") + "; retrying"
	case o.relists > seen.relists && o.failure == nil:
		f.failing, f.shown.relists = "", o.relists
		s.Message = fmt.Sprintf("relisted at resource version %s, because the watch could not be resumed; missed changes have been shown", o.version)
	case f.failing != "" && o.watching && time.Since(f.failed) >= steady:
		f.failing = ""
		s.Kind = news.Reconnected
		s.Message = fmt.Sprintf("watching again from resource version %s", o.version)
	default:
		return nil
	}
	return t.status(t.ctx, s)
}

// showInvalid shows that an object could not be decoded. The others continue.
func (t *tail) showInvalid(failure *reflector.Error) error {
	for _, f := range t.follows {
		if f.resource.GroupVersionResource == failure.Resource {
			s := f.status(f.observe(), news.Failing)
			s.Message = strings.TrimPrefix(f.explain(failure), f.where()+": ")
			return t.status(t.ctx, s)
		}
	}
	return nil
}

// progress describes the progress of the unsynced resources in one line.
func (t *tail) progress() string {
	var parts []string
	for _, f := range t.follows {
		if !f.synced && f.missing == "" {
			parts = append(parts, fmt.Sprintf("%s (%s so far)", f.where(), objects(f.observe().gathered)))
		}
	}
	return "syncing " + strings.Join(parts, ", ")
}
