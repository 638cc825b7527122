package clientgo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/naming"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Reflector keeps a store equal to what a ListerWatcher lists and watches. It has the methods and
// fields of client-go's Reflector. It is a separate type, because client-go's can only run
// client-go's code.
type Reflector struct {
	// WatchListPageSize is the page size of lists, in objects; 0 means 500.
	WatchListPageSize int64
	// ShouldResync is called before each resync; if it returns false, that resync is skipped. Nil means always resync.
	ShouldResync func() bool
	// MaxInternalErrorRetryDuration is ignored: internal errors of the server are retried, with
	// backoff, for as long as they last.
	MaxInternalErrorRetryDuration time.Duration

	source          source.ListerWatcher[tidings.Object]
	store           cache.ReflectorStore
	resync          time.Duration
	minWatchTimeout time.Duration
	backoff         reflector.Backoff
	// upstream is passed to watch error handlers. It never runs: only its name and type description are set.
	upstream     *cache.Reflector
	onWatchError cache.WatchErrorHandlerWithContext

	mu      sync.Mutex
	version string
}

// NewReflector returns a reflector named after its caller; see NewReflectorWithOptions.
func NewReflector(lw cache.ListerWatcher, expectedType interface{}, store cache.ReflectorStore, resync time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{ResyncPeriod: resync})
}

// NewNamedReflector returns a reflector with a name; see NewReflectorWithOptions.
func NewNamedReflector(name string, lw cache.ListerWatcher, expectedType interface{}, store cache.ReflectorStore, resync time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{Name: name, ResyncPeriod: resync})
}

// NewNamespaceKeyedIndexerAndReflector returns a plain client-go store indexed by namespace, and
// the reflector that fills it.
func NewNamespaceKeyedIndexerAndReflector(lw cache.ListerWatcher, expectedType interface{}, resync time.Duration) (cache.Indexer, *Reflector) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return indexer, NewReflector(lw, expectedType, indexer, resync)
}

// NewReflectorWithOptions returns a reflector that keeps store equal to what lw lists and watches,
// and resyncs it periodically if options.ResyncPeriod is set. The objects must be API objects of
// the expected type, or of any type if that is nil. An object of another type fails a list, and is
// reported as an invalid event of a watch.
//
// Tidings' reflector lists and watches: see package reflector for how it retries. Errors go to
// client-go's default watch error handler. A nil lw or store, an expected type that is not an API
// object, a clock other than the real one, or an invalid backoff panics.
func NewReflectorWithOptions(lw cache.ListerWatcher, expectedType interface{}, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	if options.Name == "" {
		options.Name = naming.GetNameFromCallsite("clientgo/reflector.go", "clientgo/controller.go", "clientgo/cache/")
	}
	r, err := newReflector(lw, expectedType, store, options)
	if err != nil {
		panic(fmt.Errorf("clientgo: new reflector %s: %w", options.Name, err))
	}
	return r
}

func newReflector(lw cache.ListerWatcher, expectedType interface{}, store cache.ReflectorStore, options cache.ReflectorOptions) (*Reflector, error) {
	example, ok := expectedType.(runtime.Object)
	if !ok && expectedType != nil {
		return nil, fmt.Errorf("the expected type %T is no API object", expectedType)
	}
	if store == nil {
		return nil, fmt.Errorf("the store is nil")
	}
	switch options.Clock.(type) {
	case nil, clock.RealClock, *clock.RealClock:
	default:
		return nil, fmt.Errorf("a clock cannot be set; testing/synctest gives a test a time of its own")
	}
	src, err := newReflectorSource(lw, example)
	if err != nil {
		return nil, err
	}
	r := &Reflector{
		source: src, store: store, resync: options.ResyncPeriod, minWatchTimeout: options.MinWatchTimeout,
		backoff:      nativeBackoff(options.Backoff),
		upstream:     cache.NewReflectorWithOptions(nil, expectedType, nil, cache.ReflectorOptions{Name: options.Name, TypeDescription: options.TypeDescription, Logger: options.Logger}),
		onWatchError: cache.DefaultWatchErrorHandler,
	}
	_, err = r.native(newReflectorSink(r), nil)
	return r, err
}

// newReflectorSource returns a source for a reflector, whose objects belong to the store: it may write to them.
func newReflectorSource(lw cache.ListerWatcher, example runtime.Object) (source.ListerWatcher[tidings.Object], error) {
	of, ok := example.(tidings.Object)
	if !ok || lw == nil {
		return newSource(lw, example)
	}
	src, err := newFunctionSource(lw, of, source.Scope{})
	if err == nil {
		src.private = true
	}
	return src, err
}

// nativeBackoff converts a client-go backoff, whose waits grow as often as its steps say.
func nativeBackoff(b *wait.Backoff) reflector.Backoff {
	if b == nil {
		return reflector.Backoff{}
	}
	native := reflector.Backoff{Min: b.Duration, Factor: b.Factor, Jitter: b.Jitter}
	if b.Factor == 0 || b.Steps < 1 {
		native.Factor = 1
	}
	if b.Jitter == 0 {
		native.Jitter = -1
	}
	last := float64(b.Duration) * math.Pow(native.Factor, float64(b.Steps)) * (1 + b.Jitter)
	native.Max = time.Duration(min(last, float64(maxBackoff)))
	if b.Cap > 0 {
		native.Max = min(native.Max, max(b.Cap, b.Duration))
	}
	return native
}

// maxBackoff limits waits that a backoff without a cap lets grow.
const maxBackoff = 24 * time.Hour

// minWatchTimeout is the minimum watch timeout that client-go's reflector requests, even if a shorter one is set.
const minWatchTimeout = 5 * time.Minute

// native returns a Tidings reflector that fills sink and reports its errors to onError.
func (r *Reflector) native(sink *reflectorSink, onError func(*reflector.Error)) (*reflector.Reflector[tidings.Object], error) {
	return reflector.New(reflector.Options[tidings.Object]{
		Name: r.TypeDescription(), Source: r.source, Sink: sink, OnError: onError,
		PageSize: r.WatchListPageSize, WatchTimeout: max(r.minWatchTimeout, minWatchTimeout), Backoff: r.backoff,
	})
}

// Name returns the reflector's name.
func (r *Reflector) Name() string { return r.upstream.Name() }

// TypeDescription describes the type of the objects.
func (r *Reflector) TypeDescription() string { return r.upstream.TypeDescription() }

// LastSyncResourceVersion returns the version of the last list or event in the store. It may be
// called from any goroutine.
func (r *Reflector) LastSyncResourceVersion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// Run lists and watches until stopCh is closed.
func (r *Reflector) Run(stopCh <-chan struct{}) { r.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext lists and watches until ctx ends. It must not be called concurrently.
func (r *Reflector) RunWithContext(ctx context.Context) {
	_ = r.run(ctx, newReflectorSink(r), func(err error) { r.handleError(ctx, err) }, func() {}) // returns when ctx ends
}

// handleError calls the watch error handler where client-go does, and logs other errors as client-go does.
func (r *Reflector) handleError(ctx context.Context, err error) {
	if failure, ok := errors.AsType[*reflector.Error](err); ok {
		if err, ok = watchError(failure, r.TypeDescription()); !ok {
			klog.FromContext(ctx).Info("Warning: watch ended with error", "reflector", r.Name(), "type", r.TypeDescription(), "err", failure)
			return
		}
	}
	r.onWatchError(ctx, r.upstream, err)
}

// ListAndWatch is like ListAndWatchWithContext, but ends when stopCh is closed.
func (r *Reflector) ListAndWatch(stopCh <-chan struct{}) error {
	return r.ListAndWatchWithContext(wait.ContextForChannel(stopCh))
}

// ListAndWatchWithContext lists, and then watches until ctx ends or a resync of the store fails. It
// returns an error of the initial list. Streaming the initial objects instead of listing them is
// retried, and after that every error of a watch as RunWithContext does, where client-go's returns
// when the watch ends.
func (r *Reflector) ListAndWatchWithContext(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := newReflectorSink(r)
	err := r.run(inner, sink, func(err error) {
		failure, ok := errors.AsType[*reflector.Error](err)
		if sink.hasListed() || ok && failure.Phase == reflector.WatchListing {
			r.handleError(ctx, err)
		} else {
			cancel(err)
		}
	}, func() { cancel(errResyncFailed) })
	if ctx.Err() != nil || errors.Is(err, errResyncFailed) {
		return nil
	}
	return err
}

// errResyncFailed ends ListAndWatchWithContext. The store's error has been logged.
var errResyncFailed = errors.New("the store could not be resynced")

// run runs a native reflector, with resyncs alongside, until ctx ends, and returns the cause.
// onResyncFailed is called after each resync that fails.
func (r *Reflector) run(ctx context.Context, sink *reflectorSink, onError func(error), onResyncFailed func()) error {
	native, err := r.native(sink, func(err *reflector.Error) { onError(err) })
	if err != nil { // a field has been set to an invalid value
		utilruntime.HandleErrorWithContext(ctx, err, "The reflector cannot run", "reflector", r.Name())
		return err
	}
	if r.resync > 0 {
		inner, cancel := context.WithCancel(ctx)
		var resync sync.WaitGroup
		resync.Go(func() { r.resyncUntil(inner, sink, onResyncFailed) })
		defer resync.Wait()
		defer cancel()
	}
	return native.Run(ctx)
}

// resyncUntil resyncs the store periodically, from the first list on, until ctx ends.
func (r *Reflector) resyncUntil(ctx context.Context, sink *reflectorSink, onFailed func()) {
	select {
	case <-sink.listed:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(r.resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if r.ShouldResync != nil && !r.ShouldResync() {
			continue
		}
		if err := r.store.Resync(); err != nil {
			r.logError("resync the store", err)
			onFailed()
		}
	}
}

// logError logs an error of the store.
func (r *Reflector) logError(what string, err error) {
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("reflector %s: cannot %s: %w", r.Name(), what, err))
	}
}

// setVersion records the store's new version.
func (r *Reflector) setVersion(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = version
}

// advanceTo records the store's new version, and tells the store. As in client-go, only events do:
// a list brings its version along.
func (r *Reflector) advanceTo(version string) {
	r.setVersion(version)
	if store, ok := r.store.(cache.ResourceVersionUpdater); ok {
		store.UpdateResourceVersion(version)
	}
}

// reflectorSink writes what one run of a native reflector receives to a client-go store.
type reflectorSink struct {
	*Reflector
	listed chan struct{} // closed by the first list
}

func newReflectorSink(r *Reflector) *reflectorSink {
	return &reflectorSink{Reflector: r, listed: make(chan struct{})}
}

func (s *reflectorSink) hasListed() bool {
	select {
	case <-s.listed:
		return true
	default:
		return false
	}
}

// Add writes changes one by one, and then a bookmark if the version is newer than the last change.
func (s *reflectorSink) Add(deltas []object.Delta[tidings.Object], version string) {
	last := ""
	for _, d := range deltas {
		s.change(d)
		last = d.Object.GetResourceVersion()
		s.advanceTo(last)
	}
	if version == last {
		return
	}
	if store, ok := s.store.(cache.ReflectorBookmarkStore); ok {
		s.logError("bookmark", store.Bookmark(version))
	}
	s.advanceTo(version)
}

func (s *reflectorSink) change(d object.Delta[tidings.Object]) {
	switch d.Type {
	case object.Added:
		s.logError("add to the store", s.store.Add(d.Object))
	case object.Deleted:
		s.logError("delete from the store", s.store.Delete(d.Object))
	default:
		s.logError("update the store", s.store.Update(d.Object))
	}
}

// Replace writes a list.
func (s *reflectorSink) Replace(objects object.Collection[tidings.Object], version string) {
	items := make([]interface{}, 0, objects.Len())
	for _, obj := range objects.All() {
		items = append(items, obj)
	}
	s.logError("replace the content of the store", s.store.Replace(items, version))
	s.setVersion(version)
	if !s.hasListed() {
		close(s.listed)
	}
}
