package ondemand

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// ListOptions select objects by their metadata. The zero value selects all.
type ListOptions struct {
	// Namespace is the namespace of the objects; empty means all.
	Namespace string
	// Labels selects by labels; nil matches all.
	Labels labels.Selector
}

// List is a list of objects with their bodies.
type List[T object.Object] struct {
	// Items are read-only, and in the order of the metadata.
	Items []T
	// ResourceVersion is that of the snapshot of the metadata that the objects were selected in. None is older.
	ResourceVersion string
	// Vanished is how many objects were left out because they have been deleted meanwhile.
	Vanished int
	// Newer is how many objects are newer than their metadata.
	Newer int
}

// One list instead of many requests is made if that many bodies are missing, and they are at least this share of the
// selected objects. A request costs as much as about five objects of 2 kB in a list (BenchmarkBodies), and a list sends
// those again that are held: it pays from a fifth on, and a quarter leaves a margin.
const (
	listFrom  = 8
	listShare = 4 // a quarter
)

func isListCheaper(missing, selected int) bool {
	return missing >= listFrom && missing*listShare >= selected
}

// List returns the selected objects with their bodies. Bodies that are not held are requested one by one, several at a
// time, or with one list if that is cheaper. It fails if one of them cannot be read; those that are gone are left out.
func (inf *Informer[T]) List(ctx context.Context, opts ListOptions) (List[T], error) {
	if err := inf.waitForSync(ctx); err != nil {
		return List[T]{}, err
	}
	snapshot := inf.metadata.Snapshot()
	var selected []*metav1.PartialObjectMetadata
	for _, m := range snapshot.Namespace(opts.Namespace) {
		if opts.Labels == nil || opts.Labels.Matches(labels.Set(m.Labels)) {
			selected = append(selected, m)
		}
	}
	from := Selection{Namespaces: inf.metadata.Namespaces(), Labels: opts.Labels,
		ResourceVersion: snapshot.ResourceVersion()}
	if opts.Namespace != "" {
		from.Namespaces = []string{opts.Namespace}
	}
	list, err := inf.reader.ReadSelected(ctx, selected, from)
	list.ResourceVersion = snapshot.ResourceVersion()
	return list, err
}

// Bodies returns the objects that the metadata belongs to, such as what an index of Metadata has found. It is like List,
// but never makes a list, which might bring objects that nobody has asked for.
func (inf *Informer[T]) Bodies(ctx context.Context, metadata iter.Seq[*metav1.PartialObjectMetadata]) (List[T], error) {
	if err := inf.waitForSync(ctx); err != nil {
		return List[T]{}, err
	}
	version := inf.metadata.Snapshot().ResourceVersion()
	list, err := inf.reader.ReadAll(ctx, slices.Collect(metadata))
	list.ResourceVersion = version
	return list, err
}

// ReadAll returns the objects that the metadata belongs to. Bodies that are not held are requested one by one. The list
// has no ResourceVersion.
func (r *Reader[T]) ReadAll(ctx context.Context, metadata []*metav1.PartialObjectMetadata) (List[T], error) {
	return r.bodies(ctx, metadata, nil)
}

// Selection says which objects selected metadata is all of.
type Selection struct {
	// Namespaces are those of the objects; metav1.NamespaceAll stands for all.
	Namespaces []string
	// Labels selects by labels, besides the scope's selector; nil matches all.
	Labels labels.Selector
	// ResourceVersion is a version at which the metadata was selected.
	ResourceVersion string
}

// ReadSelected is ReadAll for the metadata of all objects of a selection, which can be listed if that is cheaper.
func (r *Reader[T]) ReadSelected(
	ctx context.Context, metadata []*metav1.PartialObjectMetadata, s Selection,
) (List[T], error) {
	missing := 0
	for _, m := range metadata {
		key := object.KeyOf(m)
		if _, _, all := r.all.get(key, m); !all && r.held.get(key, m, r.metadata) == nil {
			missing++
		}
	}
	var listed map[object.Key]*body[T]
	if isListCheaper(missing, len(metadata)) {
		listed = r.list(ctx, s)
	}
	return r.bodies(ctx, metadata, listed)
}

// list requests all objects of a selection. What it does not return is requested one by one, so errors do not matter.
func (r *Reader[T]) list(ctx context.Context, s Selection) map[object.Key]*body[T] {
	listed := make(map[object.Key]*body[T])
	ctx, cancel := r.flights.within(ctx)
	defer cancel()
	for _, namespace := range s.Namespaces {
		if err := r.listIn(ctx, namespace, s, listed); err != nil {
			r.pause.after(err)
			break
		}
	}
	r.all.note(r.flights.life, len(s.Namespaces), len(listed))
	return listed
}

func (r *Reader[T]) listIn(ctx context.Context, namespace string, s Selection, listed map[object.Key]*body[T]) error {
	scope := r.scope
	scope.Namespace = namespace
	if s.Labels != nil && !s.Labels.Empty() {
		scope.Labels = strings.Trim(scope.Labels+","+s.Labels.String(), ",")
	}
	src, err := r.newSource(scope)
	if err != nil {
		return err
	}
	opts := source.ListOptions[T]{
		ResourceVersion: s.ResourceVersion, ResourceVersionMatch: string(metav1.ResourceVersionMatchNotOlderThan), Limit: 500, NoSharing: true,
		Skip: func(*source.ObjectError) {},
	}
	for {
		if err := r.pause.wait(ctx); err != nil {
			return err
		}
		page, err := src.List(ctx, opts, func(obj T) error {
			listed[object.KeyOf(obj)] = newBody(r.codec, obj)
			return nil
		})
		if err != nil || page.Continue == "" {
			return err
		}
		opts.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = page.Continue, "", ""
	}
}

// bodies reads the bodies of the metadata. Those listed need no request if they are not older.
func (r *Reader[T]) bodies(
	ctx context.Context, selected []*metav1.PartialObjectMetadata, listed map[object.Key]*body[T],
) (List[T], error) {
	found := make([]T, len(selected))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, r.opts.Concurrency)
	var workers sync.WaitGroup
	var failed sync.Once
	var failure error
	for i, m := range selected {
		obj, done, err := r.presentIn(listed, m)
		if done {
			found[i] = obj
		}
		if err != nil || ctx.Err() != nil {
			failed.Do(func() { failure = cmp.Or(err, context.Cause(ctx)) })
			break
		}
		if done {
			continue
		}
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			obj, err := r.Read(ctx, m)
			switch {
			case err == nil:
				found[i] = obj
			case !apierrors.IsNotFound(err):
				failed.Do(func() { failure = err })
				cancel(err)
			}
		})
	}
	workers.Wait()
	if failure != nil {
		return List[T]{}, failure
	}
	return collect(selected, found), nil
}

// presentIn is present, for what was just listed as well.
func (r *Reader[T]) presentIn(
	listed map[object.Key]*body[T], m *metav1.PartialObjectMetadata,
) (obj T, ok bool, err error) {
	key := object.KeyOf(m)
	if b := listed[key]; b != nil && b.fits(m) {
		r.held.put(key, b)
		obj, err = b.open(r.codec)
		return obj, err == nil, err
	}
	return r.present(m)
}

// collect returns the list of those objects that were found.
func collect[T object.Object](selected []*metav1.PartialObjectMetadata, found []T) (list List[T]) {
	for i, m := range selected {
		switch {
		case object.IsNil(found[i]):
			list.Vanished++
			continue
		case found[i].GetResourceVersion() != m.ResourceVersion:
			list.Newer++
		}
		list.Items = append(list.Items, found[i])
	}
	return list
}
