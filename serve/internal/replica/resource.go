package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Resource is one resource that is served from memory once it has synced.
type Resource struct {
	// Name is what the user calls it, such as "widgets.example.com".
	Name       string
	Collection *Collection
	options    Options

	// found is set while the API server has the resource, and missing once it has said that it has it not.
	found   atomic.Pointer[Found]
	missing atomic.Bool
	// lossy is set once an object could not be decoded without losing something; only its own
	// encoding is served from then on.
	lossy atomic.Bool
}

// Options says how a resource is kept.
type Options struct {
	Limits Limits
	// CheckInterval is how often the API server is asked for its version.
	CheckInterval time.Duration
	// Packs is whether objects are kept packed.
	Packs bool
	// Saved is where objects are saved; nil saves none.
	Saved  *SavedFile
	Logger *slog.Logger
}

// NewResource returns a resource of which nothing is known before Run.
func NewResource(name string, o Options) *Resource {
	return &Resource{Name: name, Collection: NewCollection(o.Limits), options: o}
}

// Found is what is known about a resource that exists.
type Found struct {
	protocol.ResourceType
	Collection *Collection
	source     *source.HTTP[*codec.Raw]
	reflector  *reflector.Reflector[*codec.Raw]
	fresh      *Freshness
}

// View returns a view of its objects for one request. ended is closed when requests are to end.
func (f *Found) View(ended <-chan struct{}) View { return f.Collection.View(f.fresh, ended) }

// Ask asks the API server for its version, which shows whether it can be reached.
func (f *Found) Ask(ctx context.Context) error {
	_, err := f.fresh.ask(ctx)
	return err
}

// StopLookingAhead makes nothing be proven of versions that the collection has not heard of, as if the API server sent
// no bookmarks. It is for tests.
func (f *Found) StopLookingAhead() { f.fresh.noBookmarks.Store(true) }

// Problem returns what keeps the objects from being current; nil if nothing does.
func (f *Found) Problem() error {
	if problem := f.reflector.Status().Problem; problem != nil {
		return problem
	}
	return nil
}

// Age returns how long ago the API server was last heard from, in whole seconds.
func (f *Found) Age() int {
	contact := f.reflector.Status().LastContact
	if contact.IsZero() {
		return 0
	}
	return int(math.Ceil(time.Since(contact).Seconds()))
}

// Found returns what is known about the resource; nil while the API server does not have it.
func (r *Resource) Found() *Found { return r.found.Load() }

// IsLossy reports whether only the encoding of the API server may be served.
func (r *Resource) IsLossy() bool { return r.lossy.Load() }

// SetLossy notes that an object could not be decoded without losing something.
func (r *Resource) SetLossy() { r.lossy.Store(true) }

// rediscoverInterval is how often a resource that does not exist is looked for.
const rediscoverInterval = 5 * time.Second

// Run looks for the resource and keeps it current until ctx ends. One that is removed is looked for again: it may come
// back with another kind, scope or version.
func (r *Resource) Run(ctx context.Context, d discovery.DiscoveryInterface, client *source.Client) {
	for ctx.Err() == nil {
		found, err := discover(ctx, d, r.Name)
		if err == nil {
			if !found.BuiltIn {
				found.SelectableFields = selectableFields(d, &found.ResourceType)
			}
			err = r.follow(ctx, found, client)
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errNotDiscovered) {
			r.missing.Store(true)
		}
		r.found.Store(nil)
		if r.options.Saved != nil && apierrors.IsNotFound(err) {
			r.options.Saved.discard(ctx)
		}
		r.options.Logger.InfoContext(ctx, "its requests are forwarded until it exists", "resource", r.Name, "error", err)
		pause(ctx, rediscoverInterval)
	}
}

// follow keeps the resource current until ctx ends or the API server no longer has it, and returns why it ended.
func (r *Resource) follow(ctx context.Context, found *Found, client *source.Client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.prepare(ctx, cancel, found, client); err != nil {
		r.options.Logger.ErrorContext(ctx, "cannot be served", "resource", r.Name, "error", err)
		<-ctx.Done() // the next try would fail, too
		return err
	}
	r.found.Store(found)
	found.fresh.start(func() { found.fresh.checkOften(ctx, r.options.CheckInterval) })
	if saved := r.options.Saved; saved != nil {
		found.fresh.start(func() { saved.keep(ctx, r.Collection, &found.ResourceType) })
	}
	_ = found.reflector.Run(ctx) // returns only why ctx ended
	found.fresh.wait()
	return context.Cause(ctx)
}

// prepare makes what follows a resource. removed is called once the API server no longer has it.
func (r *Resource) prepare(
	ctx context.Context, removed context.CancelCauseFunc, found *Found, client *source.Client,
) (err error) {
	if err := r.Collection.begin(&found.ResourceType, r.options.Packs); err != nil {
		return err
	}
	scope := source.Scope{Resource: found.GroupVersionResource, Kind: found.GroupVersionKind()}
	if found.source, err = newSource(client, scope, found.BuiltIn); err != nil {
		return err
	}
	found.Collection, found.fresh = r.Collection, newFreshness(ctx, r.Collection, found.source)
	var h intake.Holder[*codec.Raw] = holder{r.Collection}
	if r.options.Saved != nil {
		h = savedHolder{holder{r.Collection}, r.options.Saved, found}
	}
	found.reflector, err = reflector.New(reflector.Options[*codec.Raw]{
		Source: found.source, Sink: intake.AsSink[*codec.Raw]{Holder: h}, Resource: found.GroupVersionResource,
		Name: r.Name, Logger: r.options.Logger,
		OnError: func(err *reflector.Error) {
			if apierrors.IsNotFound(err) {
				r.Collection.Remove()
				removed(err)
			}
		},
	})
	found.fresh.relist = func(cause error) {
		if found.reflector.Phase() == reflector.Watching { // otherwise it is finding out by itself
			intake.ReflectorOf[reflector.Skipped](found.reflector).Relist(cause)
		}
	}
	return err
}

// newSource returns a source of objects as the API server sends them, in protobuf or JSON.
func newSource(client *source.Client, scope source.Scope, protobuf bool) (*source.HTTP[*codec.Raw], error) {
	type rawClient = intake.RawClient[source.Scope, *source.HTTP[*codec.Raw]]
	return intake.InternalsOf(client).(rawClient).NewRaw(scope, protobuf)
}

// Ready returns what is known about the resource, or why its requests have to be forwarded.
func (r *Resource) Ready() (*Found, error) {
	found := r.found.Load()
	if found == nil {
		return nil, errors.New("the API server does not have it yet")
	}
	status := found.reflector.Status()
	switch {
	case !r.Collection.synced():
		if status.Problem != nil {
			return nil, fmt.Errorf("not synced: %w", status.Problem)
		}
		return nil, errors.New("not synced")
	case status.SkippedTotal > 0:
		return nil, fmt.Errorf("%d objects cannot be read", status.SkippedTotal)
	case status.LostEvents:
		return nil, errors.New("events could not be read")
	}
	return found, nil
}

// StaleAfter is how long the API server may be silent before answers say how old they are. Bookmarks come every minute.
const StaleAfter = 90 * time.Second

// Problem returns why a resource is not served or not fresh. A resource that does not exist is no problem: its requests
// are forwarded.
func (r *Resource) Problem() error {
	found := r.found.Load()
	switch {
	case found == nil && r.missing.Load():
		return nil
	case found == nil:
		return errors.New("the API server has not said yet whether it has it")
	}
	if _, err := r.Ready(); err != nil {
		return err
	}
	if problem := found.Problem(); problem != nil {
		return problem
	}
	if age := found.Age(); age > 2*int(StaleAfter.Seconds()) {
		return fmt.Errorf("the API server was last heard from %d s ago", age)
	}
	return nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
