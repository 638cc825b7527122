package tidingsruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/source"
)

// informers makes a cache's informers, and tracks those that have not been removed.
type informers struct {
	factory *tidings.Factory
	base    string // URL path of the API server
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	writes  *controller.OwnWrites // nil unless reads wait for writes
	// oneWatch says that all forms of a kind share a watch that can; see OneWatch.
	oneWatch bool
	onDemand map[schema.GroupVersionKind]ondemand.Options // the kinds that are read on demand
	custom   newInformerFunc                              // the program's cache.Options.NewInformer, may be nil
	// metricsName and metricsProvider are those of InformerMetrics, may be nil.
	metricsName     *toolscache.InformerName
	metricsProvider toolscache.InformerMetricsProvider

	mu     sync.Mutex
	made   []*informer
	unkept []toolscache.SharedIndexInformer // views that controller-runtime has not kept yet
}

// informer is an informer on Tidings' engine.
type informer struct {
	// SharedIndexInformer is created by SetTransform. controller-runtime calls that before it hands
	// the informer to anybody; it only calls SetWatchErrorHandlerWithContext earlier.
	toolscache.SharedIndexInformer
	info         informerInfo
	onWatchError toolscache.WatchErrorHandlerWithContext
	watch        *sharedWatch // what it shares with informers of other forms; set by SetTransform
	options      toolscache.SharedIndexInformerOptions
	build        func(tidings.Trim) (toolscache.SharedIndexInformer, error) // with a watch of its own
	among        *informers
	keep         sync.Once     // adds the informer to among once controller-runtime keeps it
	untrack      func()        // ends waiting for it to see writes; nil unless reads wait for writes
	removed      chan struct{} // closed when the informer has been removed from the cache

	readersMu sync.Mutex
	readers   map[reflect.Type]*bodyReader // by the type of the bodies; for metadata of a kind that is read on demand
}

// informerInfo describes what an informer holds.
type informerInfo struct {
	kind   schema.GroupVersionKind
	form   form
	goType reflect.Type
	scope  source.Scope
}

// newInformer is the NewInformer option of the cache.
func (is *informers) newInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	options := toolscache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers}
	made, options := is.customized(lw, example, options)
	if made != nil {
		return made
	}
	inf, err := is.make(lw, example, options)
	if err != nil {
		return failedInformer{toolscache.NewSharedIndexInformer(lw, example, resync, indexers), fmt.Errorf("tidings: informer for %T: %w", example, err)}
	}
	return inf
}

// failedInformer is an informer that could not be made. NewInformer cannot return an error, but
// SetTransform, which is called next, can.
type failedInformer struct {
	toolscache.SharedIndexInformer
	err error
}

// SetTransform returns the reason why there is no informer.
func (f failedInformer) SetTransform(toolscache.TransformFunc) error { return f.err }

// make returns an informer for what lw would list and watch.
func (is *informers) make(
	lw toolscache.ListerWatcher, example runtime.Object, options toolscache.SharedIndexInformerOptions,
) (*informer, error) {
	of, ok := example.(tidings.Object)
	if !ok {
		return nil, fmt.Errorf("it has no metadata")
	}
	kinds, err := kindsOf(example, is.scheme)
	if err != nil {
		return nil, err
	}
	address, err := requestOf(lw)
	if err != nil {
		return nil, err
	}
	request, err := readRequest(address, is.base, kinds, is.mapper)
	if err != nil {
		return nil, err
	}
	inf := &informer{
		info: informerInfo{kind: request.scope.Kind, form: formOf(example), goType: reflect.TypeOf(example),
			scope: request.scope},
		among: is, removed: make(chan struct{}),
	}
	inf.watch = &sharedWatch{held: inf.info, noBookmarks: request.noBookmarks}
	inf.options = options
	inf.options.ObjectDescription = inf.info.title()
	if is.metricsName != nil && !inf.options.Identifier.Reserved() {
		inf.options.Identifier = is.metricsName.WithResource(request.scope.Resource)
		inf.options.InformerMetricsProvider = is.metricsProvider
	}
	scope := tidings.Scope{
		Resource: request.scope.Resource, Kind: request.scope.Kind.Kind, Namespaces: []string{request.scope.Namespace},
		Labels: request.scope.Labels, Fields: request.scope.Fields,
	}
	newSource := func(scope tidings.Scope, namespace string) (listerWatcher, error) {
		return is.source(lw, of, scope.Source(namespace), request.noBookmarks)
	}
	inf.build = func(trim tidings.Trim) (toolscache.SharedIndexInformer, error) {
		scope.Trim = trim
		return clientgo.NewSharedIndexInformerFromSource(is.factory, scope, newSource, inf.options)
	}
	return inf, nil
}

// source returns a source for a scope. Without bookmarks it uses lw, because our own sources always request them.
func (is *informers) source(lw toolscache.ListerWatcher, example tidings.Object, scope source.Scope, noBookmarks bool) (listerWatcher, error) {
	if noBookmarks {
		return newListWatchSource(lw, scope)
	}
	return source.NewHTTPLike(is.factory.Client(), scope, example)
}

// SetWatchErrorHandlerWithContext sets the function to call when a list or watch fails.
func (inf *informer) SetWatchErrorHandlerWithContext(h toolscache.WatchErrorHandlerWithContext) error {
	if inf.SharedIndexInformer != nil { // the program's call, not controller-runtime's
		return inf.SharedIndexInformer.SetWatchErrorHandlerWithContext(h)
	}
	inf.onWatchError = h
	return nil
}

// SetTransform, when first called, creates the informer with the function through which every
// object passes before it is stored. If that function only strips managed fields, they are skipped
// during decoding instead, which takes less CPU; so is what OnDemand drops. Unless there is another function, which may
// do something else in each form, the informer may share a watch.
func (inf *informer) SetTransform(transform toolscache.TransformFunc) error {
	if inf.SharedIndexInformer != nil {
		return inf.SharedIndexInformer.SetTransform(transform)
	}
	var trim tidings.Trim
	switch {
	case stripsManagedFields(transform):
		trim, transform = tidings.Trim{tidings.ManagedFields}, nil
	case isOnDemand(transform):
		trim, transform = ondemand.MetadataTrim(), nil
	}
	inf.watch.trim, inf.watch.transformed = strings.Join(trim, ","), transform != nil
	made := inf.among.view(inf)
	if made == nil {
		var err error
		if made, err = inf.build(trim); err != nil {
			return err
		}
	}
	inf.SharedIndexInformer = made
	return errors.Join(made.SetTransform(transform), made.SetWatchErrorHandlerWithContext(inf.onWatchError))
}

// GetIndexer returns the store. controller-runtime asks for it when nothing can fail any more: it
// drops an informer if the mapper fails after SetTransform, and then nobody would ever run an
// informer that WaitForCacheSync waits for.
func (inf *informer) GetIndexer() toolscache.Indexer {
	inf.keep.Do(func() { inf.among.add(inf) })
	return inf.SharedIndexInformer.GetIndexer()
}

// stripsManagedFields reports whether a transform is controller-runtime's
// TransformStripManagedFields. It compares source lines, because the compiler creates a separate
// function for each call site.
func stripsManagedFields(transform toolscache.TransformFunc) bool {
	return transform != nil && sourceLineOf(transform) == sourceLineOf(cache.TransformStripManagedFields())
}

// sourceLine is a line of source code.
type sourceLine struct {
	file string
	line int
}

// sourceLineOf returns the line at which a function begins.
func sourceLineOf(transform toolscache.TransformFunc) (l sourceLine) {
	pc := reflect.ValueOf(transform).Pointer()
	l.file, l.line = goruntime.FuncForPC(pc).FileLine(pc)
	return l
}

// waitForSync waits until the informer has synced or is removed, and reports whether that happened
// before ended or stopped was closed.
func (inf *informer) waitForSync(ended, stopped <-chan struct{}) bool {
	select {
	case <-inf.HasSyncedChecker().Done():
		return true
	case <-inf.removed:
		return true
	case <-ended:
	case <-stopped:
	}
	return inf.HasSynced()
}

func (inf *informer) native() *tidings.SharedInformer[tidings.Object] {
	native, _ := clientgo.NativeInformer(inf.SharedIndexInformer) // all informers made here have one
	return native
}

// status returns the status of the informer's watch.
func (inf *informer) status() tidings.Status {
	st := inf.native().Status()
	st.Resource, st.Type, st.Scope = inf.info.scope.String(), inf.watch.held.goType.String(), inf.info.filters()
	return st
}

// wait waits for an informer whose context has ended.
func (inf *informer) wait() {
	if native, ok := clientgo.NativeInformer(inf.SharedIndexInformer); ok {
		_ = native.Stop(context.Background()) // it only fails when its context ends
	}
}

// title names the informer in messages: its resource, and what distinguishes it from other informers of that resource.
func (i informerInfo) title() string {
	words := i.filters()
	if i.form != structured {
		words = strings.TrimSpace(string(i.form) + " " + words)
	}
	if words == "" {
		return i.scope.String()
	}
	return fmt.Sprintf("%s (%s)", i.scope, words)
}

// filters describes the namespace and selectors that limit the informer.
func (i informerInfo) filters() string {
	var words []string
	for _, part := range [][2]string{{"namespace", i.scope.Namespace}, {"labels", i.scope.Labels}, {"fields", i.scope.Fields}} {
		if part[1] != "" {
			words = append(words, part[0]+"="+part[1])
		}
	}
	return strings.Join(words, " ")
}

func (is *informers) add(inf *informer) {
	if is.writes != nil {
		inf.track(is.writes)
	}
	is.mu.Lock()
	defer is.mu.Unlock()
	is.made = append(is.made, inf)
	is.unkept = slices.DeleteFunc(is.unkept, func(view toolscache.SharedIndexInformer) bool {
		return view == inf.SharedIndexInformer
	})
}

// stopUnkept stops views that controller-runtime has dropped, which would keep their watches.
func (is *informers) stopUnkept() {
	is.mu.Lock()
	defer is.mu.Unlock()
	for _, view := range is.unkept {
		native, _ := clientgo.NativeInformer(view)
		_ = native.Stop(ended)
	}
	is.unkept = nil
}

// all returns the informers that have not been removed.
func (is *informers) all() []*informer {
	is.mu.Lock()
	defer is.mu.Unlock()
	return is.made[:len(is.made):len(is.made)]
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// remove removes the informers of a kind that are among made. controller-runtime has stopped those
// that ran; the others are stopped here, so that the factory drops them. It reports whether there
// are no others of the kind.
func (is *informers) remove(made []*informer, kind schema.GroupVersionKind, as form) (all bool) {
	removed, all := is.take(made, kind, as)
	for _, inf := range removed {
		if inf.untrack != nil {
			inf.untrack()
		}
		inf.stopReaders()
	}
	return all
}

// take is remove, but for what the caller still has to stop.
func (is *informers) take(made []*informer, kind schema.GroupVersionKind, as form) (removed []*informer, all bool) {
	is.mu.Lock()
	defer is.mu.Unlock()
	var left []*informer
	all = true
	for _, inf := range is.made {
		switch {
		case inf.info.kind != kind || inf.info.form != as:
			left = append(left, inf)
		case !slices.Contains(made, inf):
			left, all = append(left, inf), false
		default:
			close(inf.removed)
			_ = inf.native().Stop(ended) // does not wait, and so returns no error of interest
			removed = append(removed, inf)
		}
	}
	is.made = left
	return removed, all
}
