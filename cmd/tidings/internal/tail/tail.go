// Package tail follows resources and shows every change of their objects.
//
//	informer ──► handler (diff, redact) ──► news ──► Run's loop ──► screen
//
// Every resource has an informer with a blocking subscription, so that no change is skipped: a reader who stalls
// makes the informers wait, and nothing piles up. One loop owns all that is counted and shown.
package tail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/redact"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/reflector"
)

// Options say what to follow, how to show it, and when to end.
type Options struct {
	// Resources are followed in the Namespaces, of which one empty name stands for all. Resources that
	// are not namespaced are followed as a whole. Labels and Fields are selectors in kubectl's notation.
	Resources      []resources.Resource
	Namespaces     []string
	Labels, Fields string

	// Printer turns news into lines.
	Printer Printer
	// StatusOut says that status lines belong to the standard output, with the changes.
	StatusOut bool
	// Initial shows the objects that are there at the start too.
	Initial bool
	// Diff says what is compared.
	Diff diff.Options

	// Count ends it after so many changes; 0 means never.
	Count int
	// Idle ends it when everything has synced, all watches are open, and no change came for this long; 0 means never.
	Idle time.Duration
	// Timeout ends it after this long; 0 means never. It is an error if not everything has synced by then, or Count
	// changes have not come.
	Timeout time.Duration
	// ExitAfterSync ends it when everything has synced.
	ExitAfterSync bool
}

// Printer turns news into whole lines. Its methods may be called from several goroutines.
type Printer interface {
	Event(news.Event) []byte
	Status(news.Status) []byte
}

// errTimeout ends the context when Options.Timeout is over.
var errTimeout = errors.New("the time is up")

// pollEvery is how often the informers are asked how they are.
const pollEvery = 250 * time.Millisecond

// shutdownGrace is how long the informers may take to end.
const shutdownGrace = 5 * time.Second

// Run follows the resources until ctx ends or the options say so. It returns nil for both, cli.ErrOutputClosed
// if nobody reads the output any more, and an error if something is in the way that cannot heal by itself.
func Run(ctx context.Context, config *rest.Config, screen *cli.Screen, opts Options) error {
	if opts.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer stop()
	}
	run, cancel := context.WithCancel(ctx)
	t := &tail{
		opts: opts, screen: screen, ctx: run,
		events: make(chan change), synced: make(chan syncResult), failures: make(chan *reflector.Error, 16),
	}
	factory, err := tidings.NewFactory(config, tidings.Options{OnError: t.onError})
	if err != nil {
		cancel()
		return err
	}
	err = t.start(factory)
	if err == nil {
		err = t.loop()
	}
	cancel() // before waiting for the handlers, which may wait for the loop
	t.waiters.Wait()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer stop()
	return errors.Join(t.verdict(ctx, err), factory.Shutdown(end))
}

// verdict is what the end of the loop means.
func (t *tail) verdict(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if !errors.Is(err, errTimeout) {
		return nil // interrupted
	}
	for _, f := range t.follows {
		if why := f.informer.WaitForSync(ctx); why != nil { // the wait is over, so this only asks what is in the way
			return fmt.Errorf("%w after %s: %s", errTimeout, t.opts.Timeout, redact.Error(f.resource.GroupResource(), why))
		}
	}
	if t.opts.Count > 0 {
		return fmt.Errorf("%w after %s: %d of %d changes seen", errTimeout, t.opts.Timeout, t.shown, t.opts.Count)
	}
	return nil
}

// tail is one run. What stands below the channels belongs to the loop.
type tail struct {
	opts    Options
	screen  *cli.Screen
	ctx     context.Context // ends with the run
	waiters sync.WaitGroup  // the goroutines that wait for sync

	events chan change
	synced chan syncResult
	// failures are what the informers meet and outlive; more than fit are dropped.
	failures chan *reflector.Error

	follows  []*follow
	unsynced int // follows that have not synced
	shown    int // changes shown
	idle     *time.Timer
}

// change is an event and the follow that it comes from.
type change struct {
	follow *follow
	event  news.Event
}

// syncResult tells that a follow has synced and its handler knows all initial objects, or why it cannot.
type syncResult struct {
	follow *follow
	err    error
}

// onError takes what an informer reports: failed lists and watches, since nothing else that is reported can fail here. It
// must not wait, so what the loop cannot take is dropped; as long as things fail there will be more.
func (t *tail) onError(err error) {
	failure, ok := errors.AsType[*reflector.Error](err)
	if !ok {
		return
	}
	select {
	case t.failures <- failure:
	default:
	}
}

// errDone ends the loop as the options ask for it.
var errDone = errors.New("done")

// loop takes what the handlers and informers tell until the run is over.
func (t *tail) loop() error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	t.idle = time.NewTimer(time.Hour)
	t.idle.Stop()
	defer t.screen.Progress("")
	for {
		if err := t.next(poll.C); errors.Is(err, errDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (t *tail) next(poll <-chan time.Time) error {
	select {
	case c := <-t.events:
		return t.show(c)
	case result := <-t.synced:
		return t.onSynced(result)
	case failure := <-t.failures:
		return t.showError(failure)
	case <-poll:
		return t.look()
	case <-t.idle.C:
		return t.rested()
	case <-t.screen.Failed():
		return cli.ErrOutputClosed
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

// show shows a change. What is there at the start is no change and does not count.
func (t *tail) show(c change) error {
	if !c.event.Initial {
		if err := t.markSynced(c.follow); err != nil { // the handler was faster than the goroutine that waits for it
			return err
		}
	}
	if err := t.screen.Out(t.ctx, t.opts.Printer.Event(c.event)); err != nil || c.event.Initial {
		return err
	}
	t.shown++
	if t.shown == t.opts.Count {
		return errDone
	}
	t.rest()
	return nil
}

// rest begins to count the time without changes.
func (t *tail) rest() {
	if t.opts.Idle > 0 && t.unsynced == 0 {
		t.idle.Reset(t.opts.Idle)
	}
}

// rested ends the run, unless changes may be missing because the server is out of reach.
func (t *tail) rested() error {
	for _, f := range t.follows {
		if !f.connected() {
			t.rest()
			return nil
		}
	}
	return errDone
}

func (t *tail) onSynced(result syncResult) error {
	if result.err != nil {
		return result.err
	}
	if err := t.markSynced(result.follow); err != nil || t.unsynced > 0 {
		return err
	}
	if t.opts.ExitAfterSync {
		return errDone
	}
	t.rest()
	return nil
}

// markSynced says, once, that changes follow from here.
func (t *tail) markSynced(f *follow) error {
	if f.synced {
		return nil
	}
	f.synced = true
	t.unsynced--
	if t.unsynced == 0 {
		t.screen.Progress("")
	}
	st := f.informer.Status()
	f.parts = firstSight(st.Parts)
	s := f.status(st, news.Synced)
	s.Message = fmt.Sprintf("up to date with %s at resource version %s", objects(st.Objects), st.ResourceVersion)
	return t.status(s)
}

// status shows a status line.
func (t *tail) status(s news.Status) error {
	line := t.opts.Printer.Status(s)
	if t.opts.StatusOut {
		return t.screen.Out(t.ctx, line)
	}
	return t.screen.Err(t.ctx, line)
}
