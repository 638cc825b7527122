package tail

import (
	"context"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// hiddenEvery is how often a line about what has been hidden is shown, if that has changed.
const hiddenEvery = time.Minute

// output filters and shows news, and counts what it has shown. It belongs to one goroutine.
type output struct {
	opts   Options
	screen *cli.Screen
	shown  int // number of changes

	hidden   string // the last line about what has been hidden
	hiddenAt time.Time
}

// event shows an event that passes the filter, and returns whether it did. It returns errDone after
// Options.Count changes. The initial state is not a change and does not count.
func (o *output) event(ctx context.Context, e news.Event) (shown bool, err error) {
	if !o.opts.Filter.Apply(&e) {
		return false, nil
	}
	if err := o.screen.Out(ctx, o.opts.Printer.Event(e)); err != nil || e.Initial {
		return true, err
	}
	o.shown++
	if o.shown == o.opts.Count {
		return true, errDone
	}
	return true, nil
}

// status shows a status line.
func (o *output) status(ctx context.Context, s news.Status) error {
	line := o.opts.Printer.Status(s)
	if o.opts.StatusOut {
		return o.screen.Out(ctx, line)
	}
	return o.screen.Err(ctx, line)
}

// showHidden shows what has been hidden, if that has changed and is due, or if now is set.
func (o *output) showHidden(ctx context.Context, at time.Time, now bool) error {
	if o.hiddenAt.IsZero() {
		o.hiddenAt = at
	}
	text := o.opts.Filter.Hidden()
	if text == "" || text == o.hidden || !now && at.Sub(o.hiddenAt) < hiddenEvery {
		return nil
	}
	o.hidden, o.hiddenAt = text, at
	return o.status(ctx, news.Status{Time: at, Kind: news.Hidden, Message: text})
}

// showHiddenLast shows what has been hidden, also when ctx has ended, unless the output is stalled.
func (o *output) showHiddenLast(ctx context.Context) {
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	_ = o.showHidden(end, time.Now(), true) // it is for people; an error of the output is reported at the end
}
