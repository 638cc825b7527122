package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// resource is one resource that is served from memory once it has synced.
type resource struct {
	name       string // as the user gave it, such as "widgets.example.com"
	collection *collection
	logger     *slog.Logger
	// checkInterval is how often the server is asked for its version.
	checkInterval time.Duration
	// selectable returns the fields of a custom resource that field selectors may use.
	selectable func(*protocol.ResourceType) []string
	saved      *savedFile // nil if nothing is saved
	packs      bool       // whether the objects are kept packed

	// found is set while the API server has the resource, and missing once it has said that it has it not.
	found   atomic.Pointer[foundResource]
	missing atomic.Bool
	// lossy is set once an object could not be decoded without losing something; only its own
	// encoding is served from then on.
	lossy atomic.Bool
}

// foundResource is what is known about a resource that exists.
type foundResource struct {
	protocol.ResourceType
	source    *source.HTTP[*codec.Raw]
	reflector *reflector.Reflector[*codec.Raw]
	fresh     *freshness
}

// rediscoverInterval is how often a resource that does not exist is looked for.
const rediscoverInterval = 5 * time.Second

// run looks for the resource and keeps it current until ctx ends. One that is removed is looked for again: it may come
// back with another kind, scope or version.
func (r *resource) run(ctx context.Context, d discovery.DiscoveryInterface, client *source.Client) {
	for ctx.Err() == nil {
		found, err := discover(ctx, d, r.name)
		if err == nil {
			err = r.follow(ctx, found, client)
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errNotDiscovered) {
			r.missing.Store(true)
		}
		r.found.Store(nil)
		if r.saved != nil && apierrors.IsNotFound(err) {
			r.saved.discard(ctx)
		}
		r.logger.InfoContext(ctx, "its requests are forwarded until it exists", "resource", r.name, "error", err)
		pause(ctx, rediscoverInterval)
	}
}

// follow keeps the resource current until ctx ends or the API server no longer has it, and returns why it ended.
func (r *resource) follow(ctx context.Context, found *foundResource, client *source.Client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	scope := source.Scope{Resource: found.GroupVersionResource, Kind: found.GroupVersionKind()}
	src, err := newSource(client, scope, found.BuiltIn)
	if err == nil && r.packs {
		err = r.collection.startPacking(&found.ResourceType)
	}
	if err == nil {
		if !found.BuiltIn {
			found.SelectableFields = r.selectable(&found.ResourceType)
		}
		found.source, found.fresh = src, newFreshness(ctx, r.collection, src)
		options := reflector.Options[*codec.Raw]{
			Source: src, Sink: r.collection, Previous: r.collection.held, Resource: found.GroupVersionResource,
			Name: r.name, Logger: r.logger,
			OnError: func(err *reflector.Error) {
				if apierrors.IsNotFound(err) {
					r.collection.remove()
					cancel(err)
				}
			},
		}
		var h intake.Holder[*codec.Raw] = newHolder(r.collection)
		if r.saved != nil {
			h = r.saved.holder(r.collection, found)
		}
		options.Sink = intake.AsSink[*codec.Raw]{Holder: h}
		found.reflector, err = reflector.New(options)
	}
	if err != nil {
		r.logger.ErrorContext(ctx, "cannot be served", "resource", r.name, "error", err)
		<-ctx.Done() // the next try would fail, too
		return err
	}
	found.fresh.relist = func(cause error) {
		if found.reflector.Phase() == reflector.Watching { // otherwise it is finding out by itself
			intake.ReflectorOf[reflector.Skipped](found.reflector).Relist(cause)
		}
	}
	r.collection.follow(&found.ResourceType)
	r.found.Store(found)
	found.fresh.start(func() { found.fresh.checkOften(ctx, r.checkInterval) })
	if r.saved != nil {
		found.fresh.start(func() { r.saved.keep(ctx, r.collection, &found.ResourceType) })
	}
	_ = found.reflector.Run(ctx) // returns only why ctx ended
	found.fresh.wait()
	return context.Cause(ctx)
}

// newSource returns a source of objects as the API server sends them, in protobuf or JSON.
func newSource(client *source.Client, scope source.Scope, protobuf bool) (*source.HTTP[*codec.Raw], error) {
	type rawClient = intake.RawClient[source.Scope, *source.HTTP[*codec.Raw]]
	return intake.InternalsOf(client).(rawClient).NewRaw(scope, protobuf)
}

// ready returns what is known about the resource, or why its requests have to be forwarded.
func (r *resource) ready() (*foundResource, error) {
	found := r.found.Load()
	if found == nil {
		return nil, errors.New("the API server does not have it yet")
	}
	status := found.reflector.Status()
	switch {
	case !r.collection.synced():
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

// held returns the object that the collection has under a key.
func (c *collection) held(key object.Key) (*codec.Raw, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := opened(c.objects[key.String()])
	return raw, raw != nil
}

// errNotDiscovered is why nobody knows whether there is a resource.
var errNotDiscovered = errors.New("the API server does not say which resources it has")

// discover finds a resource by its name: "pods", "deployments.apps" or "deployments.v1.apps".
func discover(_ context.Context, d discovery.DiscoveryInterface, name string) (*foundResource, error) {
	plural, rest, _ := strings.Cut(name, ".")
	lists, err := d.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("%w: %w", errNotDiscovered, err)
	}
	exact, group := schema.ParseResourceArg(name)
	if exact != nil {
		if list, err := d.ServerResourcesForGroupVersion(exact.GroupVersion().String()); err == nil {
			lists = append([]*metav1.APIResourceList{list}, lists...)
		}
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		wanted := gv.Group == group.Group || exact != nil && gv == exact.GroupVersion()
		if rest == "" {
			wanted = gv.Group == ""
		}
		for _, api := range list.APIResources {
			if wanted && api.Name == plural {
				return describe(gv, api)
			}
		}
	}
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	for gv, err := range failed {
		if gv.Group == group.Group || exact != nil && gv == exact.GroupVersion() {
			return nil, fmt.Errorf("%w: %w", errNotDiscovered, err)
		}
	}
	return nil, fmt.Errorf("the API server has no resource %s", name)
}

func describe(gv schema.GroupVersion, api metav1.APIResource) (*foundResource, error) {
	for _, verb := range []string{"list", "watch"} {
		if !strings.Contains(" "+strings.Join(api.Verbs, " ")+" ", " "+verb+" ") {
			return nil, fmt.Errorf("%s cannot be %sed", api.Name, strings.TrimSuffix(verb, "e"))
		}
	}
	found := &foundResource{ResourceType: protocol.ResourceType{
		GroupVersionResource: gv.WithResource(api.Name), Kind: api.Kind, Namespaced: api.Namespaced,
	}}
	found.BuiltIn = scheme.Scheme.Recognizes(found.GroupVersionKind())
	return found, nil
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
