package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidings/tidings/object"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// ClientGo is what every client of client-go for one resource can do: the typed ones such as
// clientset.CoreV1().Pods("shop"), the dynamic and the metadata ones, the fakes of all of them, and a user's own.
// L is the list type, such as *corev1.PodList. A client for one namespace is limited to it.
type ClientGo[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Selection narrows what FromClient gets. The zero value takes everything as it is.
type Selection struct {
	// Labels and Fields are selectors as kubectl takes them.
	Labels, Fields string
	// Trim lists fields to remove; see object.Trim for the notation. The client's own objects are never
	// written to: what changes is copied first.
	Trim object.Trim
}

// FromClient makes a source of a client-go client. The client decodes every object by itself and holds each page
// of a list in memory at once, so NewHTTP is several times lighter where it can be used. Known objects are not
// looked up, because nothing would be saved. A selector or trim that cannot be read is an error.
func FromClient[T object.Object, L runtime.Object](client ClientGo[L], selection Selection) (ListerWatcher[T], error) {
	if _, err := labels.Parse(selection.Labels); err != nil {
		return nil, fmt.Errorf("source: label selector %q: %w", selection.Labels, err)
	}
	if _, err := fields.ParseSelector(selection.Fields); err != nil {
		return nil, fmt.Errorf("source: field selector %q: %w", selection.Fields, err)
	}
	trim, err := newTrimmer(selection.Trim)
	if err != nil {
		return nil, err
	}
	return &clientSource[T, L]{client: client, selection: selection, trim: trim}, nil
}

type clientSource[T object.Object, L runtime.Object] struct {
	client    ClientGo[L]
	selection Selection
	trim      trimmer
}

func (s *clientSource[T, L]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	list, err := s.client.List(ctx, metav1.ListOptions{
		LabelSelector:        s.selection.Labels,
		FieldSelector:        s.selection.Fields,
		ResourceVersion:      opts.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatch(opts.ResourceVersionMatch),
		Continue:             opts.Continue,
		Limit:                opts.Limit,
	})
	if err != nil {
		return ListResult{}, err
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		return ListResult{}, fmt.Errorf("list: the client returned a %T: %w", list, err)
	}
	result := ListResult{ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue()}
	// With an own allocation for each item, one that is kept does not keep the whole page.
	return result, meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
		o, err := own[T](item)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		return each(s.trim.apply(o).(T))
	})
}

// Watch offers no initial events: a fake client ignores that they are asked for and would let the caller wait
// for their end, and a real one would save nothing, because lists come in pages.
func (s *clientSource[T, L]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	if opts.SendInitialEvents {
		return nil, fmt.Errorf("watch: initial events through a client: %w", errors.ErrUnsupported)
	}
	options := metav1.ListOptions{
		LabelSelector:       s.selection.Labels,
		FieldSelector:       s.selection.Fields,
		ResourceVersion:     opts.ResourceVersion,
		AllowWatchBookmarks: true,
	}
	if seconds := wholeSeconds(opts.Timeout); seconds > 0 {
		options.TimeoutSeconds = &seconds
	}
	w, err := s.client.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return newWatchStream[T](ctx, w, s.trim), nil
}

// own asserts that o is a T with a name.
func own[T object.Object](o runtime.Object) (T, error) {
	t, ok := o.(T)
	if !ok {
		return t, fmt.Errorf("got an object of type %T where %T is wanted", o, t)
	}
	return t, checkName(t)
}
