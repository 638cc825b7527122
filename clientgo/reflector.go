package clientgo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/naming"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Reflector keeps a store equal to what a ListerWatcher lists and watches. It has the methods and fields of client-go's Reflector, and is
// a type of its own, since all that client-go's can do is run itself.
type Reflector struct {
	// WatchListPageSize is the size of a list's pages; 0 means 500.
	WatchListPageSize int64
	// ShouldResync is asked before each resync; nil means yes.
	ShouldResync func() bool
	// MaxInternalErrorRetryDuration is not used: an internal error of the server is retried for as long as it lasts, more and more slowly.
	MaxInternalErrorRetryDuration time.Duration

	source          source.ListerWatcher[tidings.Object]
	store           cache.ReflectorStore
	resync          time.Duration
	minWatchTimeout time.Duration
	backoff         reflector.Backoff
	// upstream is what watch error handlers get. It never runs: its name and type are all that is in it.
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

// NewNamespaceKeyedIndexerAndReflector returns a plain store of client-go's with an index by namespace, and the reflector that fills it.
func NewNamespaceKeyedIndexerAndReflector(lw cache.ListerWatcher, expectedType interface{}, resync time.Duration) (cache.Indexer, *Reflector) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return indexer, NewReflector(lw, expectedType, indexer, resync)
}

// NewReflectorWithOptions returns a reflector that keeps store equal to what lw lists and watches, and asks it to resync now and then. The
// objects must be API objects of the expected type, of any type if that is nil: one that is not ends a list with an error, and makes an event
// invalid, which is reported.
//
// The reflector of Tidings lists and watches: package reflector says how it retries. Errors go to client-go's default watch error handler. A nil
// lw or store, an expected type that is no API object, and a clock other than the real one panic; so does a backoff that cannot be kept.
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
	src, err := newSource(lw, example)
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

// nativeBackoff translates a backoff of client-go's.
func nativeBackoff(b *wait.Backoff) reflector.Backoff {
	if b == nil {
		return reflector.Backoff{}
	}
	native := reflector.Backoff{Min: b.Duration, Max: b.Cap, Factor: b.Factor, Jitter: b.Jitter}
	if b.Factor == 0 {
		native.Factor = 1
	}
	if b.Jitter == 0 {
		native.Jitter = -1
	}
	return native
}

// minWatchTimeout is the shortest time that client-go's reflector asks a watch to last, however short the one that is set.
const minWatchTimeout = 5 * time.Minute

// native returns a reflector of Tidings' that fills a sink and tells of its errors.
func (r *Reflector) native(sink *reflectorSink, onError func(*reflector.Error)) (*reflector.Reflector[tidings.Object], error) {
	return reflector.New(reflector.Options[tidings.Object]{
		Name: r.TypeDescription(), Source: r.source, Sink: sink, OnError: onError,
		DisableWatchList: true, PageSize: r.WatchListPageSize, WatchTimeout: max(r.minWatchTimeout, minWatchTimeout), Backoff: r.backoff,
	})
}

// Name returns the reflector's name.
func (r *Reflector) Name() string { return r.upstream.Name() }

// TypeDescription says what the objects are.
func (r *Reflector) TypeDescription() string { return r.upstream.TypeDescription() }

// LastSyncResourceVersion returns the version of the last list or event that is in the store. It may be called from any goroutine.
func (r *Reflector) LastSyncResourceVersion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// Run lists and watches until stopCh is closed.
func (r *Reflector) Run(stopCh <-chan struct{}) { r.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext lists and watches until ctx ends. One call may run at a time.
func (r *Reflector) RunWithContext(ctx context.Context) {
	_ = r.run(ctx, newReflectorSink(r), func(err error) { r.onWatchError(ctx, r.upstream, err) }) // ends with ctx
}

// ListAndWatch is ListAndWatchWithContext with a channel.
func (r *Reflector) ListAndWatch(stopCh <-chan struct{}) error {
	return r.ListAndWatchWithContext(wait.ContextForChannel(stopCh))
}

// ListAndWatchWithContext lists, and then watches until ctx ends. An error of the list is returned. From then on it goes on through every error
// as RunWithContext does, where client-go's returns at the end of the watch.
func (r *Reflector) ListAndWatchWithContext(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := newReflectorSink(r)
	err := r.run(inner, sink, func(err error) {
		if sink.hasListed() {
			r.onWatchError(ctx, r.upstream, err)
		} else {
			cancel(err)
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// run runs a native reflector, and the resync beside it, until ctx ends, and returns its cause.
func (r *Reflector) run(ctx context.Context, sink *reflectorSink, onError func(error)) error {
	native, err := r.native(sink, func(err *reflector.Error) { onError(err) })
	if err != nil { // a field has been set since to what cannot be
		utilruntime.HandleErrorWithContext(ctx, err, "The reflector cannot run", "reflector", r.Name())
		return err
	}
	if r.resync > 0 {
		inner, cancel := context.WithCancel(ctx)
		var resync sync.WaitGroup
		resync.Go(func() { r.resyncUntil(inner, sink) })
		defer resync.Wait()
		defer cancel()
	}
	return native.Run(ctx)
}

// resyncUntil resyncs the store periodically, once it has had a list, until ctx ends.
func (r *Reflector) resyncUntil(ctx context.Context, sink *reflectorSink) {
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
		if r.ShouldResync == nil || r.ShouldResync() {
			r.report("resync the store", r.store.Resync())
		}
	}
}

// report logs an error of the store.
func (r *Reflector) report(what string, err error) {
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("reflector %s: cannot %s: %w", r.Name(), what, err))
	}
}

// moved notes the version that the store has.
func (r *Reflector) moved(version string) {
	r.mu.Lock()
	r.version = version
	r.mu.Unlock()
	if store, ok := r.store.(cache.ResourceVersionUpdater); ok {
		store.UpdateResourceVersion(version)
	}
}

// reflectorSink writes what one run of a native reflector finds out to a store of client-go's.
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

// Add writes changes, one by one, and then a bookmark if the version is beyond them.
func (s *reflectorSink) Add(deltas []object.Delta[tidings.Object], version string) {
	last := ""
	for _, d := range deltas {
		s.change(d)
		last = d.Object.GetResourceVersion()
		s.moved(last)
	}
	if version == last {
		return
	}
	if store, ok := s.store.(cache.ReflectorBookmarkStore); ok {
		s.report("bookmark", store.Bookmark(version))
	}
	s.moved(version)
}

func (s *reflectorSink) change(d object.Delta[tidings.Object]) {
	switch d.Type {
	case object.Added:
		s.report("add to the store", s.store.Add(d.Object))
	case object.Deleted:
		s.report("delete from the store", s.store.Delete(d.Object))
	default:
		s.report("update the store", s.store.Update(d.Object))
	}
}

// Replace writes a list.
func (s *reflectorSink) Replace(objects object.Collection[tidings.Object], version string) {
	items := make([]interface{}, 0, objects.Len())
	for _, obj := range objects.All() {
		items = append(items, obj)
	}
	s.report("replace the content of the store", s.store.Replace(items, version))
	s.moved(version)
	if !s.hasListed() {
		close(s.listed)
	}
}
