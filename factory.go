package tidings

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// Factory makes informers of one API server and shares them: asking twice for the same type and scope gives the same
// informer. It owns every goroutine of its informers. Its methods may be called from any goroutine.
type Factory struct {
	client *source.Client
	opts   Options

	mu        sync.Mutex
	informers map[informerKey]*sharedCore // those with users
	order     []*sharedCore               // the same, oldest first
	stopped   bool
}

// informerKey is what two users must agree on to share an informer.
type informerKey struct {
	goType reflect.Type
	target string
}

// sharedCore is a core with the count of its users.
type sharedCore struct {
	key   informerKey
	core  lifecycle
	users int // guarded by Factory.mu
}

// lifecycle is a core of any type.
type lifecycle interface {
	start(ctx context.Context) error
	halt(cause error)
	stop(ctx context.Context) error
	waitForSync(ctx context.Context, failFast bool) error
	status(now time.Time) Status
}

// NewFactory returns a factory for the API server of config. It does not connect yet. config is copied; its rate
// limits do not apply, because an informer sends one request at a time.
func NewFactory(config *rest.Config, opts Options) (*Factory, error) {
	if config == nil {
		return nil, errors.New("new factory: the config is nil; load one with clientcmd or rest.InClusterConfig")
	}
	client, err := source.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("new factory: %w", err)
	}
	return &Factory{client: client, opts: opts.withDefaults(), informers: map[informerKey]*sharedCore{}}, nil
}

// Informer returns a hold on the factory's informer for type T and scope, which is made if it is not there yet. It
// starts with the factory's next Start, or its own. A bad scope is an error at once.
func Informer[T Object](f *Factory, scope Scope) (*SharedInformer[T], error) {
	t := reflect.TypeFor[T]()
	target, err := scope.resolve(f.opts.Scheme, t)
	if err != nil {
		return nil, err
	}
	key := informerKey{goType: t, target: target.id()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil, fmt.Errorf("%s: the factory has been shut down: %w", resourceName(target.resource), ErrStopped)
	}
	shared := f.informers[key]
	if shared == nil {
		c, err := newFactoryCore[T](f, target)
		if err != nil {
			return nil, err
		}
		shared = &sharedCore{key: key, core: c}
		f.informers[key] = shared
		f.order = append(f.order, shared)
	}
	shared.users++
	return &SharedInformer[T]{
		core:    shared.core.(*core[T]), // the key holds the type
		release: func(ctx context.Context) error { return f.release(ctx, shared) },
	}, nil
}

func newFactoryCore[T Object](f *Factory, t target) (*core[T], error) {
	newSource := func(namespace string, noSharing bool) (source.ListerWatcher[T], error) {
		return source.NewHTTP[T](f.client, source.Target{
			Resource: t.resource, Namespace: namespace, Labels: t.labels.String(), Fields: t.fields.String(),
			Trim: t.trim, NoSharing: noSharing, MaxObjectBytes: f.opts.MaxObjectBytes,
		})
	}
	if _, err := newSource(t.namespaces[0], false); err != nil { // what is wrong with the scope shows now, not at the start
		return nil, fmt.Errorf("%s: %w", resourceName(t.resource), err)
	}
	cfg := coreConfig[T]{
		name: resourceName(t.resource), resource: t.resource, scope: t.String(), namespaces: t.namespaces, newSource: newSource, opts: f.opts,
	}
	if !t.labels.Empty() {
		cfg.selector = t.labels
	}
	return newCore(cfg), nil
}

// release takes one user from shared, and stops it with the last one.
func (f *Factory) release(ctx context.Context, shared *sharedCore) error {
	f.mu.Lock()
	shared.users--
	last := shared.users == 0
	if last {
		delete(f.informers, shared.key)
		for i, s := range f.order {
			if s == shared {
				f.order = append(f.order[:i:i], f.order[i+1:]...)
				break
			}
		}
	}
	f.mu.Unlock()
	if !last {
		return nil
	}
	return shared.core.stop(ctx)
}

// all returns the informers, oldest first.
func (f *Factory) all() []*sharedCore {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.order[:len(f.order):len(f.order)]
}

// Start starts every informer that has not been started. They run until ctx ends or they are stopped. Call it
// again after asking for more informers.
func (f *Factory) Start(ctx context.Context) error {
	var errs []error
	for _, s := range f.all() {
		errs = append(errs, s.core.start(ctx))
	}
	return errors.Join(errs...)
}

// WaitForSync returns when every informer has its initial list. If ctx ends first, the error has one *SyncError for each
// informer that has not, which says what is in the way.
func (f *Factory) WaitForSync(ctx context.Context) error { return f.waitForSync(ctx, false) }

// WaitForSyncFailFast is WaitForSync that returns at once when something is in the way that cannot heal by itself: a
// missing permission, resource or certificate.
func (f *Factory) WaitForSyncFailFast(ctx context.Context) error { return f.waitForSync(ctx, true) }

func (f *Factory) waitForSync(ctx context.Context, failFast bool) error {
	all := f.all()
	errs := make([]error, len(all))
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			errs[i] = s.core.waitForSync(wait, failFast)
			if errs[i] != nil && failFast {
				cancel() // the others need not wait any longer
			}
		})
	}
	wg.Wait()
	if failFast && ctx.Err() == nil {
		errs = withoutCanceled(errs)
	}
	return errors.Join(errs...)
}

// withoutCanceled drops the errors of waits that were given up because another one had failed.
func withoutCanceled(errs []error) []error {
	var kept []error
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			kept = append(kept, err)
		}
	}
	return kept
}

// Status reports on every informer, oldest first.
func (f *Factory) Status() []Status {
	now := time.Now()
	var all []Status
	for _, s := range f.all() {
		all = append(all, s.core.status(now))
	}
	return all
}

// Shutdown stops every informer, whoever holds it, and waits for them until ctx ends. The factory cannot be used
// afterwards. It is idempotent.
func (f *Factory) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.stopped = true
	all := f.order[:len(f.order):len(f.order)]
	f.mu.Unlock()
	for _, s := range all {
		s.core.halt(nil)
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.core.stop(ctx))
	}
	return errors.Join(errs...)
}
