package tidingsruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/source"
)

// OnDemand marks a kind whose bodies are read when somebody asks for them, while only the metadata is held, as in
// package ondemand. It is a mark and changes nothing: set it as the Transform of the kind's ByObject.
//
//	ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Transform: tidingsruntime.OnDemand}}
//
// The manager's client reads such a kind as before: Get and List select in the metadata, and request the bodies that
// have not been read yet. Informers of the kind, and so handlers, predicates and mapping functions, get a
// *metav1.PartialObjectMetadata. IndexField takes only an index over that. Of the metadata, managed fields and the
// annotation of kubectl apply are dropped. See docs/on-demand.md in the Tidings repository.
//
// While reading one by one would take more than holding all bodies, they are held, with a list and a watch of their own.
func OnDemand(in any) (any, error) { return in, nil }

// OnDemandOnly is OnDemand for kinds whose bodies are never held all, however often they are read: for values that must
// not be in the process unless somebody has asked for them.
func OnDemandOnly(in any) (any, error) { return in, nil }

// WithOnDemand marks kinds with OnDemand, unless ByObject has a Transform for them; without kinds, Secrets and
// ConfigMaps. newCache is NewCache, or what WithOptions returns.
//
//	ctrl.Options{NewCache: tidingsruntime.WithOnDemand(tidingsruntime.NewCache)}
func WithOnDemand(newCache cache.NewCacheFunc, kinds ...client.Object) cache.NewCacheFunc {
	if len(kinds) == 0 {
		kinds = []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}
	}
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		if opts.ByObject = maps.Clone(opts.ByObject); opts.ByObject == nil {
			opts.ByObject = map[client.Object]cache.ByObject{}
		}
		for _, kind := range kinds {
			if err := mark(opts, kind); err != nil {
				return nil, fmt.Errorf("tidings: on demand: %w", err)
			}
		}
		return newCache(config, opts)
	}
}

// mark marks a kind in opts.ByObject.
func mark(opts cache.Options, obj client.Object) error {
	known := opts.Scheme
	if known == nil {
		known = scheme.Scheme
	}
	kind, err := apiutil.GVKForObject(obj, known)
	if err != nil {
		return err
	}
	for other := range opts.ByObject {
		if of, err := apiutil.GVKForObject(other, known); err == nil && of == kind {
			obj = other
		}
	}
	options := opts.ByObject[obj]
	if options.Transform == nil {
		options.Transform = OnDemand
	}
	opts.ByObject[obj] = options
	return nil
}

func isOnDemand(transform toolscache.TransformFunc) bool {
	return isFunc(transform, OnDemand) || isFunc(transform, OnDemandOnly)
}

// isFunc compares source lines, because the compiler creates a separate function for each call site.
func isFunc(transform, mark toolscache.TransformFunc) bool {
	return transform != nil && sourceLineOf(transform) == sourceLineOf(mark)
}

// onDemandKinds returns the kinds that are marked. The options must have a scheme.
func onDemandKinds(opts cache.Options) (map[schema.GroupVersionKind]ondemand.Options, error) {
	if isOnDemand(opts.DefaultTransform) || anyOnDemand(opts.DefaultNamespaces) {
		return nil, errors.New("OnDemand is set as a default for all kinds; set it as the Transform in ByObject, for each kind whose bodies are not to be held")
	}
	kinds := map[schema.GroupVersionKind]ondemand.Options{}
	for obj, options := range opts.ByObject {
		kind, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			return nil, err
		}
		marked := isOnDemand(options.Transform)
		if marked {
			kinds[kind] = ondemand.Options{NeverHoldAll: isFunc(options.Transform, OnDemandOnly)}
		}
		for namespace, config := range options.Namespaces {
			if config.Transform != nil && isOnDemand(config.Transform) != marked {
				return nil, fmt.Errorf("%s is on demand in some namespaces only, %q differs; set OnDemand as the Transform of its ByObject, and no Transform in its Namespaces", kind.Kind, namespace)
			}
		}
	}
	return kinds, nil
}

func anyOnDemand(namespaces map[string]cache.Config) bool {
	for _, config := range namespaces {
		if isOnDemand(config.Transform) {
			return true
		}
	}
	return false
}

// onDemandKind returns the kind of obj, an object or a list, if its body is read on demand.
func (c *runtimeCache) onDemandKind(obj runtime.Object) (kind schema.GroupVersionKind, ok bool) {
	if len(c.onDemand) == 0 || formOf(obj) == metadataOnly {
		return kind, false
	}
	kind, err := apiutil.GVKForObject(obj, c.informers.scheme)
	if err != nil {
		return kind, false // controller-runtime returns the error as well
	}
	if _, isList := obj.(client.ObjectList); isList {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	_, ok = c.onDemand[kind]
	return kind, ok
}

// metadataFor returns what stands for the object in the cache: if its kind is read on demand, its metadata.
func (c *runtimeCache) metadataFor(obj client.Object) client.Object {
	if kind, ok := c.onDemandKind(obj); ok {
		return metadataOfKind(kind)
	}
	return obj
}

func metadataOfKind(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := new(metav1.PartialObjectMetadata)
	m.SetGroupVersionKind(kind)
	return m
}

// IndexField adds an index; see client.FieldIndexer. One over bodies that are not held is an error.
func (c *runtimeCache) IndexField(
	ctx context.Context, obj client.Object, field string, extract client.IndexerFunc,
) error {
	if kind, ok := c.onDemandKind(obj); ok {
		return fmt.Errorf("tidings: no index %q over %s: its bodies are not held, as its Transform in ByObject is OnDemand; "+
			"pass a *metav1.PartialObjectMetadata of the kind to index its metadata, or remove OnDemand to hold the kind", field, kind.Kind)
	}
	return c.Cache.IndexField(ctx, obj, field, extract)
}

// Get copies an object from the cache to out; see client.Reader.
func (c *runtimeCache) Get(
	ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption,
) error {
	if err := c.waitForWrites(ctx, out, key); err != nil {
		return err
	}
	kind, ok := c.onDemandKind(out)
	if !ok {
		return c.Cache.Get(ctx, key, out, opts...)
	}
	m := metadataOfKind(kind)
	if err := c.waitForMetadata(ctx, m); err != nil {
		return err
	}
	if err := c.Cache.Get(ctx, key, m, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	reader, _, err := c.informers.reader(kind, m.Namespace, out)
	if err != nil {
		return err
	}
	body, err := reader.Read(ctx, m)
	if err != nil {
		return err
	}
	var options client.GetOptions
	options.ApplyOptions(opts)
	from, to := reflect.ValueOf(ownCopy(body, kind, options.UnsafeDisableDeepCopy)), reflect.ValueOf(out)
	if from.Type() != to.Type() {
		return fmt.Errorf("tidings: %s was read as %s, but a %s was asked for", kind.Kind, from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// List copies the selected objects from the cache to out; see client.Reader.
func (c *runtimeCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	if err := c.waitForWrites(ctx, out, client.ObjectKey{Namespace: options.Namespace}); err != nil {
		return err
	}
	kind, ok := c.onDemandKind(out)
	if !ok {
		return c.Cache.List(ctx, out, opts...)
	}
	if err := c.waitForMetadata(ctx, metadataOfKind(kind)); err != nil {
		return err
	}
	selected := new(metav1.PartialObjectMetadataList)
	selected.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.Cache.List(ctx, selected, append(opts[:len(opts):len(opts)], client.UnsafeDisableDeepCopy)...); err != nil {
		return err
	}
	items, err := c.bodies(ctx, kind, selected.Items, formOf(out), options)
	if err != nil {
		return err
	}
	out.SetContinue(selected.GetContinue())
	out.SetResourceVersion(selected.GetResourceVersion())
	return meta.SetList(out, items)
}

// bodies reads the bodies of the selected metadata. Objects that are deleted meanwhile are left out.
func (c *runtimeCache) bodies(ctx context.Context, kind schema.GroupVersionKind,
	selected []metav1.PartialObjectMetadata,
	as form, options client.ListOptions,
) ([]runtime.Object, error) {
	example, err := c.informers.example(kind, as)
	if err != nil {
		return nil, err
	}
	items := make([]runtime.Object, 0, len(selected))
	for len(selected) > 0 {
		reader, inf, err := c.informers.reader(kind, selected[0].Namespace, example)
		if err != nil {
			return nil, err
		}
		var part []*metav1.PartialObjectMetadata // what the first informer holds
		for len(selected) > 0 && c.informers.metadata(kind, selected[0].Namespace) == inf {
			part, selected = append(part, &selected[0]), selected[1:]
		}
		list, err := readPart(ctx, reader, inf, part, options)
		if err != nil {
			return nil, err
		}
		for _, body := range list.Items {
			items = append(items, ownCopy(body, kind, options.UnsafeDisableDeepCopy))
		}
	}
	return items, nil
}

// readPart reads the bodies of one informer's objects. Only if they are all that some request selects, it may be a
// list.
func readPart(ctx context.Context, reader *bodyReader, inf *informer, part []*metav1.PartialObjectMetadata,
	options client.ListOptions,
) (ondemand.List[tidings.Object], error) {
	if options.FieldSelector != nil || options.Limit > 0 {
		return reader.ReadAll(ctx, part)
	}
	namespace := options.Namespace
	if namespace == "" {
		namespace = inf.info.scope.Namespace
	}
	return reader.ReadSelected(ctx, part, ondemand.Selection{
		Namespaces: []string{namespace}, Labels: options.LabelSelector, ResourceVersion: inf.native().ResourceVersionIn(namespace),
	})
}

// ownCopy returns a copy of a body for the caller, unless he does without.
func ownCopy(body tidings.Object, kind schema.GroupVersionKind, unsafe *bool) runtime.Object {
	if unsafe != nil && *unsafe {
		return body
	}
	copied := body.DeepCopyObject()
	copied.GetObjectKind().SetGroupVersionKind(kind)
	return copied
}

// waitForMetadata waits for the sync of the informers of metadata. Unlike controller-runtime's cache, it says what is
// wrong. Before the start, and for informers that must not be made, it leaves the error to that cache.
func (c *runtimeCache) waitForMetadata(ctx context.Context, m *metav1.PartialObjectMetadata) error {
	exists, synced := c.informers.stateOf(m.GroupVersionKind())
	if synced || !isClosed(c.started) || c.onlyExisting && !exists {
		return nil
	}
	if _, err := c.GetInformer(ctx, m); err != nil {
		return fmt.Errorf("%s is read on demand, which needs the verbs list and watch for its metadata, and get for bodies: %w", m.Kind, err)
	}
	return nil
}

// bodyReader reads the bodies of an informer's objects.
type bodyReader = ondemand.Reader[tidings.Object]

// metadataInformer adapts an informer of metadata to package ondemand.
type metadataInformer struct {
	*tidings.SharedInformer[tidings.Object]
}

func (m metadataInformer) Get(key tidings.Key) (*metav1.PartialObjectMetadata, bool) {
	obj, _ := m.SharedInformer.Get(key)
	found, ok := obj.(*metav1.PartialObjectMetadata)
	return found, ok
}

func (m metadataInformer) Len() int { return m.Snapshot().Len() }

// example returns an object of the kind in a form.
func (is *informers) example(kind schema.GroupVersionKind, as form) (tidings.Object, error) {
	if as == unstructuredForm {
		u := new(unstructured.Unstructured)
		u.SetGroupVersionKind(kind)
		return u, nil
	}
	obj, err := is.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	of, ok := obj.(tidings.Object)
	if !ok {
		return nil, fmt.Errorf("tidings: %T has no metadata", obj)
	}
	return of, nil
}

// stateOf reports whether there are informers of the kind's metadata, and whether all of them have synced.
func (is *informers) stateOf(kind schema.GroupVersionKind) (exist, synced bool) {
	synced = true
	for _, inf := range is.all() {
		if inf.info.kind == kind && inf.info.form == metadataOnly {
			exist, synced = true, synced && inf.HasSynced()
		}
	}
	return exist, exist && synced
}

// metadata returns the informer that holds a kind's metadata in a namespace; nil if there is none.
func (is *informers) metadata(kind schema.GroupVersionKind, namespace string) (found *informer) {
	for _, inf := range is.all() {
		if inf.info.kind != kind || inf.info.form != metadataOnly {
			continue
		}
		switch inf.info.scope.Namespace {
		case namespace:
			return inf
		case "":
			found = inf
		}
	}
	return found
}

// reader returns the reader of bodies like the example, and the informer of their metadata.
func (is *informers) reader(
	kind schema.GroupVersionKind, namespace string, example tidings.Object,
) (*bodyReader, *informer, error) {
	inf := is.metadata(kind, namespace)
	if inf == nil { // it has been removed since the object was found
		return nil, nil, removedError(kind)
	}
	inf.readersMu.Lock()
	defer inf.readersMu.Unlock()
	if isClosed(inf.removed) { // nobody would stop a reader that is made now
		return nil, nil, removedError(kind)
	}
	goType := reflect.TypeOf(example)
	if reader := inf.readers[goType]; reader != nil {
		return reader, inf, nil
	}
	reader, err := ondemand.NewReader(is.factory.Client(), inf.info.scope, example, metadataInformer{inf.native()},
		is.allLike(example, inf.info.scope), is.onDemand[kind])
	if err != nil {
		return nil, nil, fmt.Errorf("tidings: %s: %w", kind.Kind, err)
	}
	if inf.readers == nil {
		inf.readers = map[reflect.Type]*bodyReader{}
	}
	inf.readers[goType] = reader
	return reader, inf, nil
}

// allLike returns a function that makes an informer of all objects of a scope, in the example's form.
func (is *informers) allLike(
	example tidings.Object, of source.Scope,
) func() (*tidings.SharedInformer[tidings.Object], error) {
	scope := tidings.Scope{Resource: of.Resource, Kind: of.Kind.Kind, Namespaces: []string{of.Namespace},
		Labels: of.Labels, Fields: of.Fields}
	newSource := func(scope tidings.Scope, namespace string) (listerWatcher, error) {
		return source.NewHTTPLike(is.factory.Client(), scope.Source(namespace), example)
	}
	return func() (*tidings.SharedInformer[tidings.Object], error) {
		return tidings.UnsharedInformer(is.factory, scope, tidings.UnsharedOptions[tidings.Object]{Source: newSource})
	}
}

func removedError(kind schema.GroupVersionKind) error {
	return fmt.Errorf("tidings: the informer of %s has been removed", kind.Kind)
}

// stopReaders ends the requests for bodies, and drops the bodies.
func (inf *informer) stopReaders() {
	inf.readersMu.Lock()
	readers := inf.readers
	inf.readers = nil
	inf.readersMu.Unlock()
	for _, reader := range readers {
		reader.Stop()
	}
}
