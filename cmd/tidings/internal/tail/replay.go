package tail

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/source/recording"
)

// Replay shows a recording, with its own times, and returns when everything has been shown. speed
// is how many times faster than it happened; recording.AtOnce waits for nothing. Of the options,
// those apply that select, format and count what is shown.
func Replay(ctx context.Context, rec *recording.Recording, speed float64, only history.Selection, screen *cli.Screen, opts Options) error {
	if len(rec.Collections()) == 0 {
		return errors.New("the recording is empty: nothing was listed or watched while it was made")
	}
	r := &replay{out: output{opts: opts, screen: screen}, only: only, speed: speed, started: time.Now()}
	r.began, _ = rec.Began()
	err := r.run(ctx, rec)
	if errors.Is(err, errDone) {
		err = nil
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // interrupted
	}
	r.out.closeStory(ctx)
	return errors.Join(err, r.out.showHidden(ctx, r.began.Add(rec.Duration()), true))
}

// replay shows a recording.
type replay struct {
	out            output
	only           history.Selection
	speed          float64
	began, started time.Time // of the recording and of the replay
}

func (r *replay) run(ctx context.Context, rec *recording.Recording) error {
	for item, err := range history.Of(rec) {
		if err != nil {
			return err
		}
		if !r.only.Includes(item) {
			continue
		}
		if err := r.wait(ctx, item.Time); err != nil {
			return err
		}
		if err := r.show(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until it is time for what happened at a time of the recording.
func (r *replay) wait(ctx context.Context, at time.Time) error {
	after := min(float64(at.Sub(r.began))/r.speed, math.MaxInt64/2)
	wait := time.Until(r.started.Add(time.Duration(after)))
	if wait < time.Millisecond {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.out.screen.Failed():
		return r.out.screen.OutputError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *replay) show(ctx context.Context, item history.Item) error {
	if item.Kind != history.Change {
		return r.out.status(ctx, statusOf(item))
	}
	if item.Initial && !r.out.opts.Initial {
		return nil
	}
	_, err := r.out.event(ctx, history.Event(item, r.out.opts.News))
	return err
}

// statusOf returns the status line for an item that is not a change.
func statusOf(item history.Item) news.Status {
	s := news.Status{
		Time: item.Time, Resource: item.Resource, Namespace: item.Namespace, Objects: item.Objects, ResourceVersion: item.Version,
	}
	switch item.Kind {
	case history.Synced:
		s.Kind = news.Synced
		s.Message = fmt.Sprintf("up to date with %s at resource version %s", objects(item.Objects), item.Version)
	case history.Relisted:
		s.Kind = news.Relisted
		s.Message = fmt.Sprintf("relisted at resource version %s; missed changes have been shown", item.Version)
	case history.Reconnected:
		s.Kind, s.Message = news.Reconnected, "watching again from resource version "+item.Version
	case history.Undecodable:
		s.Kind, s.Message = news.Failing, item.Explain()
	default:
		s.Kind, s.Message = news.Failing, item.Explain()+"; retrying"
	}
	return s
}
