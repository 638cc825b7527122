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
	// asFields is set while a person wants to see fields instead of the story.
	asFields bool

	hidden   string // the last line about what has been hidden
	hiddenAt time.Time

	held *held // what waits while the output is paused; nil while it is not
}

// event shows an event that passes the filter, and returns whether it did. It returns errDone after
// Options.Count changes. The initial state is not a change and does not count.
func (o *output) event(ctx context.Context, e news.Event) (shown bool, err error) {
	if shown, err = o.tell(ctx, e); !shown || err != nil || e.Initial {
		return shown, err
	}
	o.shown++
	if o.shown == o.opts.Count {
		return true, errDone
	}
	return true, nil
}

// tell shows an event, as a part of the story or by its fields, and returns whether there was something to show.
func (o *output) tell(ctx context.Context, e news.Event) (shown bool, err error) {
	if story := o.opts.Story; story != nil {
		lines, told := story.Event(e) // also while it is not shown, so that it can go on
		if !o.fields() {
			if err := o.lines(ctx, lines); err != nil || told || !o.opts.Filter.All() {
				return told, err
			}
		}
	}
	if !o.opts.Filter.Apply(&e) {
		return false, nil
	}
	return true, o.write(ctx, o.opts.Printer.Event(e), false)
}

// fields reports whether changes are shown field by field: there is no story, or a filter selects single changes.
func (o *output) fields() bool {
	return o.opts.Story == nil || o.asFields || o.opts.Filter.SelectsChanges()
}

// lines shows lines of the story that have the text that is looked for.
func (o *output) lines(ctx context.Context, lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	return o.write(ctx, o.opts.Filter.Lines(lines), false)
}

// tick shows what of the story is due.
func (o *output) tick(ctx context.Context, now time.Time) error {
	if o.opts.Story == nil {
		return nil
	}
	lines := o.opts.Story.Tick(now)
	if o.fields() {
		return nil
	}
	return o.lines(ctx, lines)
}

// closeStory shows what is left of the story, also when ctx has ended, unless the output is stalled.
func (o *output) closeStory(ctx context.Context) {
	if o.opts.Story == nil || o.fields() {
		return
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	_ = o.lines(end, o.opts.Story.Close()) // an error of the output is reported at the end
}

// leftOut says what was not shown.
func (o *output) leftOut() string {
	if o.fields() {
		return o.opts.Filter.Hidden()
	}
	if text := o.opts.Story.LeftOut(); text != "" && !o.opts.Filter.All() {
		return "not in the story: " + text + " (--all shows them)"
	}
	return ""
}

// status shows a status line.
func (o *output) status(ctx context.Context, s news.Status) error {
	return o.write(ctx, o.opts.Printer.Status(s), !o.opts.StatusOut)
}

// write writes lines for people to standard error, and others to standard output, now or after the pause.
func (o *output) write(ctx context.Context, text []byte, forPeople bool) error {
	switch {
	case o.held != nil:
		o.held.add(heldText{text, forPeople})
		return nil
	case forPeople:
		return o.screen.Err(ctx, text)
	default:
		return o.screen.Out(ctx, text)
	}
}

// release ends a pause.
func (o *output) release(ctx context.Context) error {
	held := o.held
	o.held = nil
	if held == nil {
		return nil
	}
	if held.dropped > 0 {
		s := news.Status{Time: time.Now(), Kind: news.Hidden,
			Message: "the pause was long: the first " + changes(held.dropped) + " of it were dropped"}
		if err := o.status(ctx, s); err != nil {
			return err
		}
	}
	for _, h := range held.texts {
		if err := o.write(ctx, h.text, h.forPeople); err != nil {
			return err
		}
	}
	return nil
}

// maxHeld bounds what is kept during a pause, in bytes. What is older is dropped.
const maxHeld = 4 << 20

// held is what waits while the output is paused.
type held struct {
	texts   []heldText
	bytes   int
	changes int // number of texts that are changes
	dropped int // number of changes that are no longer among them
}

type heldText struct {
	text      []byte
	forPeople bool
}

func (h *held) add(t heldText) {
	h.texts = append(h.texts, t)
	h.count(t, 1)
	for h.bytes > maxHeld {
		first := h.texts[0]
		h.texts = h.texts[1:]
		h.count(first, -1)
		if !first.forPeople {
			h.dropped++
		}
	}
}

func (h *held) count(t heldText, n int) {
	h.bytes += n * len(t.text)
	if !t.forPeople {
		h.changes += n
	}
}

// showHidden shows what has been hidden, if that has changed and is due, or if now is set.
func (o *output) showHidden(ctx context.Context, at time.Time, now bool) error {
	if o.hiddenAt.IsZero() {
		o.hiddenAt = at
	}
	text := o.leftOut()
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
