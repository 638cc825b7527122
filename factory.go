package tidings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// Factory makes informers for one API server and shares them: asking twice for the same type and scope returns the same
// informer. It owns every goroutine of its informers. Its methods may be called from any goroutine.
type Factory struct {
	client  *source.Client                        // nil without an API server, when all sources come from SetSource
	cluster func(context.Context) (string, error) // nil if the cluster cannot be identified
	peers   *reflector.Peers
	opts    Options
	memory  *budget.Budget // nil without a budget
	clock   *memory.Clock

	mu      sync.Mutex
	sources map[reflect.Type]any // a SourceFunc[T] by T
	shared  map[informerKey]*sharedInformer
	all     []*sharedInformer // that have not ended, shared or not, oldest first
	stopped bool
	// unsynced says that an informer that nobody had stopped has ended without having synced. It
	// counts once none is left, and is forgotten with the next new one.
	unsynced error
}

// informerKey identifies the informer that users share: equal keys get the same one.
type informerKey struct {
	goType reflect.Type
	target string
}

// sharedInformer is an engine informer with its user count.
type sharedInformer struct {
	key   informerKey
	info  informerInfo
	core  lifecycle
	users int // guarded by Factory.mu
}

// lifecycle is an engine.Informer of any type.
type lifecycle interface {
	statusReporter
	Start(ctx context.Context) error
	Halt(cause error)
	Stop(ctx context.Context) error
	CheckRunning() error
	WaitForSync(ctx context.Context, failFast bool) (*engine.Obstacle, error)
}

// SourceFunc returns the source for one namespace of a scope, or for all of them if namespace is
// All. The scope's Resource is set, and its Source method applies the factory's limits. A
// SourceFunc must not call the factory or its informers, which may stand still until it returns.
type SourceFunc[T Object] func(scope Scope, namespace string) (source.ListerWatcher[T], error)

// NewFactory returns a factory for the API server that config points to. It does not connect yet.
// config is copied; its rate limits do not apply, because an informer sends one request at a time.
func NewFactory(config *rest.Config, opts Options) (*Factory, error) {
	if config == nil {
		return nil, errors.New("new factory: the config is nil; load one with clientcmd or rest.InClusterConfig")
	}
	client, err := source.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("new factory: %w", err)
	}
	return NewFactoryForClient(client, opts)
}

// NewSourceFactory returns a factory without an API server: every type needs a source, see SetSource. It is for testing
// programs that take a factory, for example with a fake clientset.
func NewSourceFactory(opts Options) *Factory {
	opts = opts.withDefaults()
	limit, _ := opts.memory() // Informer returns the error
	return &Factory{
		opts: opts, memory: limit, peers: new(reflector.Peers), clock: new(memory.Clock), cluster: clusterOf(nil, opts),
		sources: map[reflect.Type]any{}, shared: map[informerKey]*sharedInformer{},
	}
}

// SetSource makes f get the objects of type T from the sources that fn returns instead of from its
// API server. It affects only informers created later.
func SetSource[T Object](f *Factory, fn SourceFunc[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources[reflect.TypeFor[T]()] = fn
}

// Informer returns a reference to the factory's informer for type T and scope, and creates the
// informer if there is none. It is started by the factory's next Start, or by its own. An invalid
// scope is an error right away.
func Informer[T Object](f *Factory, scope Scope) (*SharedInformer[T], error) {
	target, err := scopeOf[T](f, scope)
	if err != nil {
		return nil, err
	}
	key := informerKey{goType: reflect.TypeFor[T](), target: target.id()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkNotStopped(target); err != nil {
		return nil, err
	}
	shared := f.shared[key]
	if shared == nil || errors.Is(shared.core.CheckRunning(), ErrStopped) { // one that is stopping may take long to end
		given, _ := f.sources[key.goType].(SourceFunc[T])
		if shared, err = newShared(f, key, target, UnsharedOptions[T]{Source: given}); err != nil {
			return nil, err
		}
		f.shared[key] = shared
	} else if have := shared.info.scope.budget; target.budget != 0 && target.budget != have {
		return nil, fmt.Errorf("%s: the informer of this scope has a MemoryBudget of %d, not %d", shared.info.title, have, target.budget)
	}
	return newReference[T](f, shared), nil
}

// scopeOf validates the factory's budget and the scope.
func scopeOf[T Object](f *Factory, scope Scope) (target, error) {
	if err := checkBudget("Options", f.opts.MemoryBudget); err != nil {
		return target{}, err
	}
	return scope.resolve(f.opts.Scheme, reflect.TypeFor[T]())
}

// checkNotStopped returns an error if the factory has been shut down. The caller holds f.mu.
func (f *Factory) checkNotStopped(t target) error {
	if !f.stopped {
		return nil
	}
	return fmt.Errorf("%s: the factory has been shut down: %w", resourceName(t.resource), ErrStopped)
}

// newReference returns a new user's reference to an informer. The caller holds f.mu.
func newReference[T Object](f *Factory, shared *sharedInformer) *SharedInformer[T] {
	shared.users++
	inf := &SharedInformer[T]{
		core:    shared.core.(*engine.Informer[T]), // T is part of the key
		info:    shared.info,
		release: f.releaser(shared),
		share:   func() (*SharedInformer[T], error) { return share[T](f, shared) },
		unshare: func() error { return f.unshare(shared) },
	}
	inf.internals = newInternals(inf, f.client)
	if selector := shared.info.scope.labels; !selector.Empty() {
		inf.selection.labels = selector
	}
	if selector := shared.info.scope.fields; !selector.Empty() {
		inf.selection.fields = selector
	}
	return inf
}

// share returns a reference to an informer for one more user.
func share[T Object](f *Factory, shared *sharedInformer) (*SharedInformer[T], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shared.users == 0 || errors.Is(shared.core.CheckRunning(), ErrStopped) {
		return nil, fmt.Errorf("%s: share: %w", shared.info.title, ErrStopped)
	}
	return newReference[T](f, shared), nil
}

// newShared makes an informer that has no users yet. The caller holds f.mu.
func newShared[T Object](f *Factory, key informerKey, t target, opts UnsharedOptions[T]) (*sharedInformer, error) {
	newSource := sourceFor(f, t, opts.Source)
	first, err := newSource(t.namespaces[0]) // so that an invalid scope is reported now and not at the start
	if err != nil {
		return nil, fmt.Errorf("%s: %w", resourceName(t.resource), err)
	}
	shared := &sharedInformer{key: key, info: informerInfo{
		resource: resourceName(t.resource), title: cmp.Or(opts.Name, t.title(key.goType)), goType: key.goType.String(), scope: t, staleAfter: f.opts.StaleAfter,
	}}
	limit := f.memory
	if t.budget > 0 {
		limit = budget.New(t.budget, f.opts.Logger)
	}
	clock := f.clock
	if f.opts.keepsOpen(t.resource.GroupResource()) || t.keepOpen {
		clock = nil
	}
	options := f.opts.engine(f.peers, f.cluster)
	options.FirstFromCache = options.FirstFromCache || t.fromCache
	options.OnError = callBoth(options.OnError, opts.OnError)
	identity := t.identity()
	if opts.Source != nil {
		identity["source"] = givenScope(first, t.namespaces[0])
	}
	shared.core = engine.New(engine.Config[T]{
		Memory: limit, Clock: clock, Identity: identity, Options: options,
		Name: shared.info.title, Resource: t.resource, Namespaces: t.namespaces,
		Type: intake.ObjectType[T](first), NewSource: withFirst(t.namespaces[0], first, newSource),
		OnEnd: func() { f.remove(shared) },
	})
	f.all = append(f.all, shared)
	f.unsynced = nil
	return shared, nil
}

// givenScope describes the scope of a source that is not the factory's own, made for a namespace.
// It may be narrower than the informer's.
func givenScope(src any, namespace string) string {
	scope := scopeOfSource(src)
	if scope.Namespace == namespace {
		scope.Namespace = "" // each namespace has a file anyway
	}
	return scopeText(scope)
}

// withFirst wraps newSource to return the existing source first, once, when it is called for that source's namespace.
func withFirst[T Object](namespace string, first source.ListerWatcher[T], newSource func(string) (source.ListerWatcher[T], error)) func(string) (source.ListerWatcher[T], error) {
	var once sync.Once
	return func(wanted string) (src source.ListerWatcher[T], err error) {
		if wanted == namespace {
			once.Do(func() { src, first = first, nil })
		}
		if src != nil {
			return src, nil
		}
		return newSource(wanted)
	}
}

// sourceFor returns a function that makes a target's sources, with the given function or over the
// API server. The caller holds f.mu.
func sourceFor[T Object](f *Factory, t target, given SourceFunc[T]) func(namespace string) (source.ListerWatcher[T], error) {
	client, recorder := f.client, f.opts.Recorder
	scope := t.scope()
	scope.maxObjectBytes, scope.maxSharedBytes = f.opts.MaxObjectBytes, budget.SharedBytes(cmp.Or(t.budget, f.opts.MemoryBudget))
	return func(namespace string) (src source.ListerWatcher[T], err error) {
		sourceScope := scope.Source(namespace)
		switch {
		case given != nil:
			if src, err = given(scope, namespace); src == nil && err == nil {
				err = fmt.Errorf("the SourceFunc of %s returned neither a source nor an error", reflect.TypeFor[T]())
			}
		case client == nil:
			return nil, fmt.Errorf("the factory has no API server and no source for %s; call SetSource", reflect.TypeFor[T]())
		default:
			src, err = source.NewHTTP[T](client, sourceScope)
		}
		if err != nil || recorder == nil {
			return src, err
		}
		return recording.Record(recorder, src, sourceScope), nil
	}
}

// title names an informer in messages: its resource, and what distinguishes it from other informers of that resource.
func (t target) title(goType reflect.Type) string {
	words := ""
	switch goType {
	case reflect.TypeFor[*unstructured.Unstructured]():
		words = " unstructured"
	case reflect.TypeFor[*metav1.PartialObjectMetadata]():
		words = " metadata only"
	}
	if text := t.labels.String(); text != "" {
		words += " labels " + text
	}
	if text := t.fields.String(); text != "" {
		words += " fields " + text
	}
	if text := t.shard.String(); text != "" {
		words += " shard " + text
	}
	if words == "" {
		return resourceName(t.resource)
	}
	return fmt.Sprintf("%s (%s)", resourceName(t.resource), words[1:])
}

// ResourceAppeared makes informers that are waiting for a missing resource retry immediately. It is
// for programs that have their own way of learning about new CRDs; among informers of the same
// resource, the first to find it wakes the others by itself.
func (f *Factory) ResourceAppeared(resource schema.GroupVersionResource) {
	f.peers.ResourceAppeared(resource)
}

// releaser returns a function that drops one user of shared on its first call, and reports on every
// call whether it was the last.
func (f *Factory) releaser(shared *sharedInformer) (release func() (last bool)) {
	return sync.OnceValue(func() bool { return f.dropUser(shared) })
}

// dropUser removes one user of shared. After the last one, shared is not handed out any more.
func (f *Factory) dropUser(shared *sharedInformer) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared.users--
	if shared.users > 0 {
		return false
	}
	f.stopSharing(shared)
	return true
}

// unshare stops shared from being handed out again. It is an error if shared has other users already.
func (f *Factory) unshare(shared *sharedInformer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shared.users > 1 {
		return fmt.Errorf("%s: %d users share the informer; the change would affect all of them", shared.info.title, shared.users)
	}
	f.stopSharing(shared)
	return nil
}

// stopSharing stops shared from being handed out again. The caller holds f.mu.
func (f *Factory) stopSharing(shared *sharedInformer) {
	if f.shared[shared.key] == shared {
		delete(f.shared, shared.key)
	}
}

// remove drops an informer that has ended for whatever reason.
func (f *Factory) remove(shared *sharedInformer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopSharing(shared)
	f.all = slices.DeleteFunc(slices.Clone(f.all), func(s *sharedInformer) bool { return s == shared })
	if shared.users == 0 {
		return
	}
	if _, err := shared.core.WaitForSync(context.Background(), false); err != nil { // it has ended, so this returns immediately
		f.unsynced = err
	}
}

// informers returns the informers that have not ended, oldest first.
func (f *Factory) informers() []*sharedInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[:len(f.all):len(f.all)]
}

// Start starts every informer that has not been started. They run until ctx ends or they are stopped. Call it
// again after asking for more informers.
func (f *Factory) Start(ctx context.Context) error {
	f.mu.Lock()
	stopped := f.stopped
	f.mu.Unlock()
	if stopped {
		return fmt.Errorf("start: the factory has been shut down: %w", ErrStopped)
	}
	var errs []error
	for _, s := range f.informers() {
		if err := s.core.Start(ctx); !errors.Is(err, ErrStopped) { // ignore informers that are just being stopped
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// WaitForSync waits until every informer that has not ended has synced. If ctx ends first, the
// error wraps one *SyncError for each informer that has not, which says why. After Shutdown it is
// an error, and so it is if no informer is left because the context that they were started with
// ended before all of them had synced. See SharedInformer.WaitForSync.
func (f *Factory) WaitForSync(ctx context.Context) error { return f.waitForSync(ctx, false) }

// WaitForSyncFailFast is like WaitForSync, but returns immediately on a problem that retrying cannot fix, such as a
// missing permission, resource or certificate, or a wrong address.
func (f *Factory) WaitForSyncFailFast(ctx context.Context) error { return f.waitForSync(ctx, true) }

// errGivenUp cancels the waits for the other informers once one has failed permanently.
var errGivenUp = errors.New("another informer cannot sync")

func (f *Factory) waitForSync(ctx context.Context, failFast bool) error {
	f.mu.Lock()
	all, stopped, unsynced := f.all[:len(f.all):len(f.all)], f.stopped, f.unsynced
	f.mu.Unlock()
	switch {
	case stopped:
		return fmt.Errorf("wait for sync: the factory has been shut down: %w", ErrStopped)
	case len(all) == 0 && ctx.Err() != nil: // informers that were started with it may have ended
		return fmt.Errorf("wait for sync: there is no informer: %w", context.Cause(ctx))
	case len(all) == 0 && unsynced != nil:
		return fmt.Errorf("wait for sync: every informer has ended: %w", unsynced)
	}
	errs := make([]error, len(all))
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			obstacle, err := s.core.WaitForSync(wait, failFast)
			if err == nil {
				err = syncError(s.info.title, obstacle)
			}
			if errs[i] = err; err != nil && failFast {
				cancel(errGivenUp)
			}
		})
	}
	wg.Wait()
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, errGivenUp) })...)
}

// Status returns the status of every informer, oldest first.
func (f *Factory) Status() []Status {
	var all []Status
	for _, s := range f.informers() {
		all = append(all, s.info.status(s.core))
	}
	return all
}

// Shutdown stops every informer, whether or not it still has users, and waits for them until ctx
// ends; called again, it waits again. The factory cannot be used afterwards.
func (f *Factory) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.stopped = true
	all := f.all[:len(f.all):len(f.all)]
	f.mu.Unlock()
	for _, s := range all {
		s.core.Halt(nil)
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, stopError(s.core.Stop(ctx)))
	}
	return errors.Join(errs...)
}
