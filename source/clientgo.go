package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidings/tidings/object"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// FromClient makes a source of a client-go client. Of the scope, its selectors and Trim count: the client knows the resource and
// the namespace. The client decodes every object by itself and holds each page of a list in memory at once, so NewHTTP is
// several times lighter where it can be used. The client's own objects are never written to: what Trim changes is copied first, and
// for callers that write to objects (NoSharing) all of it. A selector or trim that cannot be read is an error.
func FromClient[T object.Object, L runtime.Object](client ClientGo[L], scope Scope) (ListerWatcher[T], error) {
	if err := scope.checkSelectors(); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	trim, err := newTrimmer(scope.Trim)
	if err != nil {
		return nil, err
	}
	return &clientSource[T, L]{client: client, scope: scope, trim: trim}, nil
}

type clientSource[T object.Object, L runtime.Object] struct {
	client ClientGo[L]
	scope  Scope
	trim   trimmer
}

func (s *clientSource[T, L]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	list, err := s.client.List(ctx, metav1.ListOptions{
		LabelSelector:        s.scope.Labels,
		FieldSelector:        s.scope.fieldsOf(opts.Only),
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
		o, err := own[T](item, 0)
		if bad, ok := errors.AsType[*ObjectError](err); ok && opts.Skip != nil {
			opts.Skip(bad)
			return nil
		}
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		return each(handOut(o, s.trim, opts.NoSharing))
	})
}

// Watch offers no initial events: a fake client ignores that they are asked for and would let the caller wait
// for their end, and a real one would save nothing, because lists come in pages.
func (s *clientSource[T, L]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	if opts.SendInitialEvents {
		return nil, fmt.Errorf("watch: initial events through a client: %w", errors.ErrUnsupported)
	}
	options := metav1.ListOptions{
		LabelSelector:       s.scope.Labels,
		FieldSelector:       s.scope.Fields,
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
	return newWatchStream[T](ctx, w, s.trim, opts.NoSharing), nil
}

// own asserts that o is a T with a name. t is what happened to it, 0 in a list.
func own[T object.Object](o runtime.Object, t EventType) (T, error) {
	mine, ok := o.(T)
	if ok {
		return mine, checkName(mine)
	}
	err := fmt.Errorf("got an object of type %T where %T is wanted", o, mine)
	if m, e := meta.Accessor(o); e == nil && m.GetName() != "" {
		return mine, &ObjectError{Key: object.KeyOf(m), UID: string(m.GetUID()), ResourceVersion: m.GetResourceVersion(), Event: t, Err: err}
	}
	return mine, err
}

// handOut prepares a client's object for the caller.
func handOut[T object.Object](o T, trim trimmer, noSharing bool) T {
	trimmed := trim.apply(o)
	if noSharing {
		return trimmed.DeepCopyObject().(T)
	}
	return trimmed.(T)
}
