package tail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/reflector"
)

// Objects are unstructured, a form that any resource has.
type (
	object   = *unstructured.Unstructured
	informer = tidings.SharedInformer[object]
)

// follow is one resource that is followed, or one namespace of it.
type follow struct {
	resource  resources.Resource
	namespace string // set if there are several
	informer  *informer
	handler   *tidings.Registration
	// The fields below belong to the loop.
	synced  bool
	missing string           // why it cannot be followed; "" if it can
	shown   counters         // what has been shown of its list and watch
	failing reflector.Reason // of an ongoing failure that has been shown
	failed  time.Time        // when the failure was last seen
}

// where names what is followed.
func (f *follow) where() string {
	if f.namespace == "" {
		return f.resource.Name()
	}
	return f.resource.Name() + " in " + f.namespace
}

// start makes and starts the informers. Their handlers and waiters end with t.ctx.
func (t *tail) start(factory *tidings.Factory) error {
	for _, r := range t.opts.Resources {
		namespaces := []string{""}
		if r.Namespaced && len(t.opts.Namespaces) > 0 {
			namespaces = t.opts.Namespaces
		}
		for _, namespace := range namespaces {
			inf, err := tidings.Informer[object](factory, t.scope(r, namespace))
			if err != nil {
				return err
			}
			f, err := t.follow(inf, r.Resource)
			if err != nil {
				return err
			}
			if len(namespaces) > 1 {
				f.namespace = namespace
			}
			t.follows = append(t.follows, f)
		}
	}
	return t.run(factory)
}

// run starts the informers.
func (t *tail) run(factory *tidings.Factory) error {
	if err := factory.Start(t.ctx); err != nil {
		return err
	}
	for _, f := range t.follows {
		t.waiters.Go(func() { send(t.ctx, t.synced, syncResult{f, f.wait(t.ctx, true)}) })
	}
	return nil
}

func (t *tail) scope(r resources.Target, namespace string) tidings.Scope {
	scope := tidings.Scope{Resource: r.GroupVersionResource, Labels: t.opts.Labels, Fields: t.opts.Fields}
	if r.Object != "" {
		scope.Fields = strings.TrimPrefix(scope.Fields+",metadata.name="+r.Object, ",")
	}
	if namespace != "" {
		scope.Namespaces = []string{namespace}
	}
	if t.opts.Recorder != nil {
		scope.Kind = r.Kind // for the recording, since a replay has no other source for it
	}
	return scope
}

// follow adds a handler to the resource's informer that converts its notifications into news.
func (t *tail) follow(inf *informer, r resources.Resource) (f *follow, err error) {
	f = &follow{resource: r, informer: inf}
	f.handler, err = inf.AddHandler(t.handler(f), tidings.HandlerOptions{Name: "tail", Policy: tidings.Block})
	return f, err
}

// handler converts an informer's notifications into news.
func (t *tail) handler(f *follow) tidings.HandlerFuncs[object] {
	tell := func(e news.Event) { send(t.ctx, t.events, change{f, e}) }
	opts := t.opts.News
	opts.Clean = news.NewClean()
	return tidings.HandlerFuncs[object]{
		Add: func(obj object, initial bool) {
			if !initial || t.opts.Initial {
				tell(news.NewAdded(time.Now(), f.resource, obj, initial, opts))
			}
		},
		Update: func(before, after object) {
			if before.GetResourceVersion() != after.GetResourceVersion() {
				tell(news.NewModified(time.Now(), f.resource, before, after, opts))
			}
		},
		Delete: func(gone tidings.Tombstone[object]) {
			tell(news.NewDeleted(time.Now(), f.resource, gone.Object, gone.FinalStateUnknown, opts))
		},
	}
}

// send sends v to the loop, unless the run has ended.
func send[V any](ctx context.Context, to chan<- V, v V) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// wait returns when the handler has been called for all initial objects. With failFast, it returns
// at once with an error that does not resolve by itself.
func (f *follow) wait(ctx context.Context, failFast bool) error {
	wait := f.informer.WaitForSync
	if failFast {
		wait = f.informer.WaitForSyncFailFast
	}
	if err := wait(ctx); err != nil {
		return err
	}
	return f.handler.WaitForSync(ctx)
}

// explain says what keeps f from being followed, without secrets.
func (f *follow) explain(err error) string {
	text := redact.Error(f.resource.GroupResource(), err)
	if failure, ok := errors.AsType[*reflector.Error](err); ok {
		text = strings.TrimPrefix(text, failure.Name+": ")
	}
	return f.where() + ": " + strings.TrimPrefix(text, f.resource.Name()+": ")
}

func (f *follow) status(o observation, kind news.StatusKind) news.Status {
	return news.Status{Time: time.Now(), Kind: kind, Resource: f.resource, Namespace: f.namespace, Objects: o.objects, ResourceVersion: o.version}
}

func objects(n int) string { return count(n, "object") }

func changes(n int) string { return count(n, "change") }

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
