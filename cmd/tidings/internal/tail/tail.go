// Package tail follows resources and shows every change of their objects.
//
//	informer ──► handler (diff, redact) ──► news ──► Run's loop ──► screen
//
// Every resource, and each namespace of it, has an informer with a blocking subscription, so that
// no change is skipped: a stalled reader makes the informers wait, and nothing piles up. A resource
// that may not be listed does not affect the others. One loop owns everything that is counted and
// shown.
package tail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/filter"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source/recording"
)

// Options selects what to follow, how to show it, and when to stop.
type Options struct {
	// Resources are followed in the Namespaces; a single empty name means all. Resources that are
	// not namespaced are followed as a whole. Labels and Fields are selectors in kubectl's
	// notation.
	Resources      []resources.Target
	Namespaces     []string
	Labels, Fields string

	// Printer formats news as lines.
	Printer Printer
	// Story, if set, is told instead, as long as no filter selects single changes. It needs News.States.
	Story Story
	// Beginning is said once, when everything that can be followed has synced; empty says nothing.
	Beginning string
	// StatusOut writes status lines to standard output, with the changes.
	StatusOut bool
	// Initial also shows the objects that exist at the start.
	Initial bool
	// News selects what is compared and shown.
	News news.Options
	// Filter selects the changes that are shown; nil shows all.
	Filter *filter.Filter

	// Count stops after this many changes; 0 means never.
	Count int
	// Idle stops when everything has synced, all watches are open, and there has been no change for
	// this long; 0 means never.
	Idle time.Duration
	// Timeout stops after this long; 0 means never. It is an error if by then something has not
	// synced, or there have been fewer than Count changes.
	Timeout time.Duration
	// ExitAfterSync stops when everything has synced.
	ExitAfterSync bool
	// Recorder records what the server sends; may be nil. The caller has to close it.
	Recorder *recording.Recorder
	// Keyboard opens the keyboard of a person who may change what is shown; nil if there is none. It
	// needs a Filter, and News.States for conditions.
	Keyboard func(context.Context) (*cli.Keyboard, error)
}

// Story tells changes as lines that may be complete only later.
type Story interface {
	// Event takes a change, and returns what is complete now; told says that the story has room for the change.
	Event(news.Event) (lines []byte, told bool)
	// Tick returns what is due at a time without a change, and Close what is left at the end.
	Tick(time.Time) []byte
	Close() []byte
	// Open returns the lines that are not complete.
	Open() []string
	// LeftOut says in one line what the story had no room for.
	LeftOut() string
}

// Printer formats news as whole lines. Its methods may be called from several goroutines.
type Printer interface {
	Event(news.Event) []byte
	Status(news.Status) []byte
}

// ErrTimeout is the cause with which the context ends after Options.Timeout.
var ErrTimeout = errors.New("timed out")

// pollEvery is how often the state of the informers is checked.
const pollEvery = 250 * time.Millisecond

// shutdownGrace is how long the informers may take to stop.
const shutdownGrace = 5 * time.Second

// Run follows the resources until ctx ends or the options say so. It returns nil in both cases, the
// screen's error if writing its output fails, and an error for each resource that could not be
// followed: it continues as long as there is another one. The caller has to enforce
// Options.Timeout, with ErrTimeout as the cause.
func Run(ctx context.Context, config *rest.Config, screen *cli.Screen, opts Options) error {
	run, cancel := context.WithCancel(ctx)
	t := &tail{
		output: output{opts: opts, screen: screen}, ctx: run,
		events: make(chan change), synced: make(chan syncResult), failures: make(chan *reflector.Error, 16),
	}
	quiet := slog.New(slog.DiscardHandler) // what an informer would log is shown as status
	factory, err := tidings.NewFactory(config, tidings.Options{OnError: t.onError, Logger: quiet, Recorder: opts.Recorder})
	if err != nil {
		cancel()
		return err
	}
	err = t.start(factory)
	if err == nil {
		err = t.loop()
		t.closeKeyboard()
		t.held = nil
		t.closeStory(ctx)
		t.showHiddenLast(ctx)
	}
	cancel() // before waiting for the handlers, which may wait for the loop
	t.waiters.Wait()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer stop()
	err = t.result(ctx, err)
	_ = factory.Shutdown(end) // a request that does not end, for example because of a credential plugin that hangs, ends with the process
	return err
}

// result returns the result of the run: what the end of the loop means, and what was missing until then.
func (t *tail) result(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // interrupted
		if errors.Is(context.Cause(ctx), ErrTimeout) {
			err = t.timedOut(ctx)
		}
	}
	if errors.Is(err, errNothingLeft) {
		err = nil // what is missing says why
	}
	errs := []error{err}
	for _, f := range t.follows {
		if f.missing != "" {
			errs = append(errs, errors.New(f.missing))
		}
	}
	return errors.Join(errs...)
}

// timedOut returns an error unless everything that was waited for has happened in time.
func (t *tail) timedOut(ctx context.Context) error {
	for _, f := range t.follows {
		if f.synced || f.missing != "" {
			continue
		}
		if why := f.informer.WaitForSync(ctx); why != nil { // ctx has ended, so this only returns the reason
			return fmt.Errorf("%w after %s: %s", ErrTimeout, t.opts.Timeout, f.explain(why))
		}
	}
	if t.opts.Count > 0 {
		return fmt.Errorf("%w after %s: %d of %d changes seen", ErrTimeout, t.opts.Timeout, t.shown, t.opts.Count)
	}
	return nil
}

// tail is one run. The fields below the channels belong to the loop.
type tail struct {
	output
	desk
	ctx     context.Context // ends with the run
	waiters sync.WaitGroup  // the goroutines that wait for sync

	events chan change
	synced chan syncResult
	// failures are objects that could not be decoded; what does not fit is dropped.
	failures chan *reflector.Error

	follows []*follow
	server  server
	idle    *time.Timer
}

// pending returns the number of follows that have yet to sync, without those that cannot be followed.
func (t *tail) pending() (n int) {
	for _, f := range t.follows {
		if !f.synced && f.missing == "" {
			n++
		}
	}
	return n
}

// change is an event and the follow that it comes from.
type change struct {
	follow *follow
	event  news.Event
}

// syncResult says that a follow has synced and its handler has seen all initial objects, or why it cannot.
type syncResult struct {
	follow *follow
	err    error
}

// onError handles an informer's errors. The loop notices errors of a list or watch as a whole when
// it polls; this only passes on objects that could not be decoded. It must not wait, so it drops
// what the loop cannot take.
func (t *tail) onError(err error) {
	failure, ok := errors.AsType[*reflector.Error](err)
	if !ok || failure.Reason != reflector.InvalidEvent && failure.Reason != reflector.InvalidObject {
		return
	}
	select {
	case t.failures <- failure:
	default:
	}
}

var (
	// errDone ends the loop as the options demand.
	errDone = errors.New("done")
	// errNothingLeft ends the loop when none of the resources can be followed.
	errNothingLeft = errors.New("nothing left to follow")
)

// loop handles what the handlers and informers send until the run ends.
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
		return t.showInvalid(failure)
	case <-poll:
		return t.poll()
	case key := <-t.keys():
		return t.onKey(key)
	case <-t.idle.C:
		return t.onIdle()
	case <-t.screen.Failed():
		return t.screen.OutputError()
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

// show shows a change. The initial state is not a change and does not count.
func (t *tail) show(c change) error {
	if !c.event.Initial {
		if err := t.markSynced(c.follow); err != nil { // the handler was faster than the goroutine that waits for it
			return err
		}
	}
	shown, err := t.event(t.ctx, c.event)
	if t.keyboard != nil && !t.fields() {
		t.showLive()
	}
	if shown && !c.event.Initial && err == nil {
		t.startIdleTimer()
	}
	return err
}

// startIdleTimer starts the timer for Options.Idle.
func (t *tail) startIdleTimer() {
	if t.opts.Idle > 0 && t.pending() == 0 {
		t.idle.Reset(t.opts.Idle)
	}
}

// onIdle ends the run, unless changes may be missing because the server is unreachable.
func (t *tail) onIdle() error {
	for _, f := range t.follows {
		if f.missing == "" && !f.observe().watching {
			t.startIdleTimer()
			return nil
		}
	}
	return errDone
}

func (t *tail) onSynced(result syncResult) error {
	if result.err != nil && ofResource(result.err) {
		return t.markMissing(result.follow, result.err)
	}
	if result.err != nil { // failures of the server as a whole are shown as an outage
		t.waitOn(result.follow)
		return nil
	}
	if err := t.markSynced(result.follow); err != nil {
		return err
	}
	return t.settled()
}

// settled does what is due once everything that can sync has synced.
func (t *tail) settled() error {
	if t.pending() > 0 {
		return nil
	}
	t.screen.Progress("")
	if t.opts.ExitAfterSync {
		return errDone
	}
	t.startIdleTimer()
	begins := t.opts.Beginning
	if t.opts.Beginning = ""; begins == "" {
		return nil
	}
	return t.serverStatus(news.Synced, begins)
}

// markSynced shows, once, that changes follow from here on.
func (t *tail) markSynced(f *follow) error {
	if f.synced {
		return nil
	}
	f.synced, f.missing = true, ""
	t.openKeyboard()
	o := f.observe()
	f.shown = o.counters
	s := f.status(o, news.Synced)
	s.Message = fmt.Sprintf("up to date with %s at resource version %s", objects(o.objects), o.version)
	return t.status(t.ctx, s)
}

// markMissing shows that a resource cannot be followed for a reason that does not resolve by
// itself. Its informer keeps trying, in case somebody grants the missing permission.
func (t *tail) markMissing(f *follow, why error) error {
	if f.synced || f.missing != "" || t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	f.missing = f.explain(why)
	if !slices.ContainsFunc(t.follows, func(f *follow) bool { return f.missing == "" }) {
		return errNothingLeft
	}
	t.waitOn(f)
	s := f.status(f.observe(), news.Missing)
	s.Message = strings.TrimPrefix(f.missing, f.where()+": ") + "; continuing without it"
	if err := t.status(t.ctx, s); err != nil {
		return err
	}
	return t.settled()
}

// waitOn waits for a follow however long it takes.
func (t *tail) waitOn(f *follow) {
	t.waiters.Go(func() {
		if f.wait(t.ctx, false) == nil {
			send(t.ctx, t.synced, syncResult{f, nil})
		}
	})
}
