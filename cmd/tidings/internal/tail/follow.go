package tail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/redact"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// Objects are followed as they come over the wire: any resource has them.
type (
	object   = *unstructured.Unstructured
	informer = tidings.SharedInformer[object]
)

// follow is one resource that is followed.
type follow struct {
	resource resources.Resource
	informer *informer
	handler  *tidings.Registration
	// The rest belongs to the loop.
	synced bool
	stale  bool
	parts  []partSeen // what has been shown of each part
}

// start makes and starts an informer for each resource. Its handlers and waiters end with t.ctx.
func (t *tail) start(factory *tidings.Factory) error {
	for _, r := range t.opts.Resources {
		f, err := t.follow(factory, r)
		if err != nil {
			return err
		}
		t.follows = append(t.follows, f)
	}
	t.unsynced = len(t.follows)
	if err := factory.Start(t.ctx); err != nil {
		return err
	}
	for _, f := range t.follows {
		t.waiters.Go(func() { send(t.ctx, t.synced, syncResult{f, f.wait(t.ctx)}) })
	}
	return nil
}

// follow makes an informer for the resource, with a handler that turns what it is told into news.
func (t *tail) follow(factory *tidings.Factory, r resources.Resource) (*follow, error) {
	scope := tidings.Scope{Resource: r.GroupVersionResource, Labels: t.opts.Labels, Fields: t.opts.Fields}
	if r.Namespaced {
		scope.Namespaces = t.opts.Namespaces
	}
	inf, err := tidings.Informer[object](factory, scope)
	if err != nil {
		return nil, err
	}
	f := &follow{resource: r, informer: inf}
	f.handler, err = inf.AddHandler(t.handler(f), tidings.Subscription{Name: "tail", Policy: tidings.Block})
	return f, err
}

// handler turns what an informer tells into news.
func (t *tail) handler(f *follow) tidings.HandlerFuncs[object] {
	tell := func(e news.Event) { send(t.ctx, t.events, change{f, e}) }
	return tidings.HandlerFuncs[object]{
		Add: func(obj object, initial bool) {
			if !initial || t.opts.Initial {
				tell(news.NewAdded(time.Now(), f.resource, obj, initial))
			}
		},
		Update: func(before, after object) {
			if before.GetResourceVersion() != after.GetResourceVersion() {
				tell(news.NewModified(time.Now(), f.resource, before, after, t.opts.Diff))
			}
		},
		Delete: func(gone tidings.Tombstone[object]) {
			tell(news.NewDeleted(time.Now(), f.resource, gone.Object, gone.FinalStateUnknown))
		},
	}
}

// send gives v to the loop unless the run is over.
func send[V any](ctx context.Context, to chan<- V, v V) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// wait returns when the handler has been told of all initial objects. What cannot heal by itself is an error at once,
// in words that hold no secret.
func (f *follow) wait(ctx context.Context) error {
	err := f.informer.WaitForSyncFailFast(ctx)
	if err == nil {
		err = f.handler.WaitForSync(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return errors.New(redact.Error(f.resource.GroupResource(), err))
	}
	return err
}

func (f *follow) status(st tidings.Status, kind news.StatusKind) news.Status {
	return news.Status{Time: time.Now(), Kind: kind, Resource: f.resource, Objects: st.Objects, ResourceVersion: st.ResourceVersion}
}

func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}
