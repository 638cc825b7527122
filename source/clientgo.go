package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/object"
)

// ClientGo is implemented by every client-go client for one resource: typed ones such as
// clientset.CoreV1().Pods("shop"), dynamic and metadata clients, fakes of all of these, and custom ones.
// L is the list type, such as *corev1.PodList. A client for one namespace is limited to it.
type ClientGo[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// FromClient returns a source over a client-go client, for example from a fake clientset. The scope
// may be empty: the client knows its resource and namespace. The scope's selectors are sent with
// every request; its Trim removes fields from the objects that the client returns.
//
// The client decodes all objects and holds each page of a list in memory as a whole, so NewHTTP is
// several times cheaper where it can be used. Objects from the client are never modified: if Trim
// changes an object, the changed parts are copied, and with NoSharing every object is copied, since
// fakes return the objects that they store. If Previous is set and NoSharing is not, objects are
// copies that share equal parts, unless a copy would lose information. Structs that a
// watch of one of client-go's REST clients has decoded are not copied for that: nobody else has them.
//
// A client with a method IsWatchListSemanticsUnSupported that returns false is asked to stream the
// initial objects. Others list them in pages.
//
// A call of the client that has not returned a second after its context has ended is abandoned,
// because clients may ignore the context: its goroutine remains until it returns, and what it
// returns is dropped.
//
// An object without a name, such as a fake clientset makes of one with generateName, is taken with an empty name.
//
// It is an error if the scope is invalid or the client lists objects that are not of type T.
func FromClient[T object.Object, L runtime.Object](client ClientGo[L], scope Scope) (ListerWatcher[T], error) {
	scope, err := scope.complete()
	if err != nil {
		return nil, err
	}
	trim, err := newTrimmer(scope.Trim)
	if err != nil {
		return nil, err
	}
	if got, want := itemOf[L](), reflect.TypeFor[T](); got != nil && !got.AssignableTo(want) {
		return nil, fmt.Errorf("source: the client lists objects of type %v where %v is wanted", got, want)
	}
	s := &clientSource[T, L]{client: client, scope: scope, trim: trim, selects: newSelection(scope)}
	s.sharer.MaxSharedBytes = scope.MaxSharedBytes
	return s, nil
}

// itemOf returns the type of the items in lists of type L, nil if it cannot be determined.
func itemOf[L runtime.Object]() reflect.Type {
	t := reflect.TypeFor[L]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	items, ok := t.Elem().FieldByName("Items")
	switch {
	case !ok || items.Type.Kind() != reflect.Slice:
		return nil
	case items.Type.Elem().Kind() == reflect.Struct:
		return reflect.PointerTo(items.Type.Elem())
	case items.Type.Elem().Kind() == reflect.Pointer:
		return items.Type.Elem()
	}
	return nil
}

type clientSource[T object.Object, L runtime.Object] struct {
	client ClientGo[L]
	scope  Scope
	trim   trimmer
	sharer codec.Sharer[T]
	// selects is nil if the scope has no selectors that can be checked.
	selects *selection
}

// Scope returns the source's scope with defaults filled in.
func (s *clientSource[T, L]) Scope() Scope { return s.scope }

// ObjectType returns the type of L's items, or T if it cannot be determined.
func (s *clientSource[T, L]) ObjectType() reflect.Type {
	if item := itemOf[L](); item != nil {
		return item
	}
	return reflect.TypeFor[T]()
}

func (s *clientSource[T, L]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	options := metav1.ListOptions{
		LabelSelector:        s.scope.Labels,
		ShardSelector:        s.scope.shardSelector(ctx),
		FieldSelector:        s.scope.fieldsOf(opts.Only),
		ResourceVersion:      opts.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatch(opts.ResourceVersionMatch),
		Continue:             opts.Continue,
		Limit:                opts.Limit,
	}
	list, err := callAbandonable(ctx, func() (L, error) { return s.client.List(ctx, options) }, nil)
	if err != nil {
		return ListResult{}, listError(err)
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		return ListResult{}, fmt.Errorf("list: the client returned a %T: %w", list, err)
	}
	if got := list.GetObjectKind().GroupVersionKind(); !got.Empty() && !s.scope.Kind.Empty() && got.Kind != s.scope.Kind.Kind+"List" {
		want := s.scope.Kind.GroupVersion().WithKind(s.scope.Kind.Kind + "List")
		return ListResult{}, fmt.Errorf("list %v: %w", s.scope, &KindError{Got: got, Want: want})
	}
	result := ListResult{ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue()}
	objects := s.objects(opts.Previous, opts.NoSharing)
	// Allocate each item separately, so that one that is kept does not keep the whole page in memory.
	return result, meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
		if objects.excludes(item) {
			return nil
		}
		o, err := objects.take(item, 0)
		if err != nil {
			return opts.skip(err, s.scope)
		}
		if sent, err := meta.Accessor(item); err == nil {
			s.selects.listed(sent)
		}
		return each(o)
	})
}

// listError returns an error from a client's list. If the client could not decode the list, its
// text may quote all of it.
func listError(err error) error {
	if _, ok := errors.AsType[abandonedError](err); ok || err == errNoReturn {
		return err
	}
	switch {
	case runtime.IsMissingKind(err):
		return errNoList
	case redact.QuotesNoData(err):
		return err
	default:
		return redact.Decoding(err)
	}
}

// Watch asks the client for initial events only if it says that it supports them: one that ignores
// the request would let the caller wait for their end.
func (s *clientSource[T, L]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	if opts.SendInitialEvents && !s.sendsInitialEvents() {
		return nil, fmt.Errorf("watch: initial events through a client: %w", errors.ErrUnsupported)
	}
	options := metav1.ListOptions{
		LabelSelector:       s.scope.Labels,
		ShardSelector:       s.scope.shardSelector(ctx),
		FieldSelector:       s.scope.Fields,
		ResourceVersion:     opts.ResourceVersion,
		AllowWatchBookmarks: true,
	}
	if opts.SendInitialEvents {
		options.SendInitialEvents, options.ResourceVersionMatch = &opts.SendInitialEvents, metav1.ResourceVersionMatchNotOlderThan
	}
	if seconds := wholeSeconds(opts.Timeout); seconds > 0 {
		options.TimeoutSeconds = &seconds
	}
	w, err := callAbandonable(ctx, func() (watch.Interface, error) { return s.client.Watch(ctx, options) }, watch.Interface.Stop)
	switch {
	case err == nil:
		objects := s.objects(opts.Previous, opts.NoSharing)
		objects.owned = decodesForReader(w)
		stream := newWatchStream(ctx, w, objects)
		stream.initial, stream.begins = opts.SendInitialEvents, opts.SendInitialEvents
		return stream, nil
	case opts.SendInitialEvents && !fromOutside(err):
		return nil, fmt.Errorf("watch: initial events through a client: %w: %w", errors.ErrUnsupported, err)
	default:
		return nil, err
	}
}

// Unnumbered reports whether versions of this source prove nothing: the client says so with a
// method Unnumbered or, if it has none, says that it does not support WatchList semantics. Fake
// clients say that, and never raise the version of an object.
func (s *clientSource[T, L]) Unnumbered() bool {
	switch client := s.client.(type) {
	case interface{ Unnumbered() bool }:
		return client.Unnumbered()
	case interface{ IsWatchListSemanticsUnSupported() bool }:
		return client.IsWatchListSemanticsUnSupported()
	}
	return false
}

// sendsInitialEvents asks the client. The method is client-go's: it lets fake clients say that they do not.
func (s *clientSource[T, L]) sendsInitialEvents() bool {
	client, ok := s.client.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && !client.IsWatchListSemanticsUnSupported()
}

// fromOutside reports whether an error of a client comes from the server or the network. Others are
// the client's own, as of fakes that cannot parse an option.
func fromOutside(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return true
	}
	var status apierrors.APIStatus // not an error type, so not for AsType
	return errors.As(err, &status) || errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func (s *clientSource[T, L]) objects(previous Previous[T], noSharing bool) clientObjects[T] {
	objects := clientObjects[T]{scope: s.scope, selects: s.selects, trim: s.trim, copyAll: noSharing}
	objects.shard = newShardFilter(s.scope.Shard)
	if previous != nil && !noSharing {
		s.sharer.Recheck()
		objects.previous, objects.sharer = previous, &s.sharer
	}
	return objects
}

// SharedBytes returns the memory, in bytes, that the source uses for shared parts of objects and
// for its plans of types.
func (s *clientSource[T, L]) SharedBytes() int64 { return s.sharer.SharedBytes() }

// OnStrayWrite sets a function that is called, while List or Next runs, when a part that objects
// share is found to have been modified. Call it before the first List or Watch.
func (s *clientSource[T, L]) OnStrayWrite(f func(field string)) { s.sharer.OnStrayWrite = f }

// clientObjects converts objects from a client to objects of a source.
type clientObjects[T object.Object] struct {
	scope   Scope
	selects *selection
	shard   *shardFilter
	trim    trimmer
	copyAll bool // every object is a copy
	// sharer, if not nil, makes copies that share equal parts. If nobody else has the objects
	// (owned), it makes the objects themselves share them.
	sharer   *codec.Sharer[T]
	owned    bool
	previous Previous[T]
}

// excludes reports whether an object is in another shard.
func (c *clientObjects[T]) excludes(o runtime.Object) bool {
	if c.shard == nil {
		return false
	}
	m, err := meta.Accessor(o)
	return err == nil && m.GetName() != "" && c.shard.excludes(m.GetNamespace(), string(m.GetUID()))
}

// take checks o, and trims and copies it if required. The error is an ObjectError if o has a key.
func (c *clientObjects[T]) take(o runtime.Object, t EventType) (T, error) {
	var zero T
	m, err := meta.Accessor(o)
	if err != nil {
		return zero, fmt.Errorf("got an object of type %T: %w", o, err)
	}
	typed, err := c.check(o)
	if err == nil {
		if c.copyAll {
			typed = typed.DeepCopyObject().(T)
		}
		return c.shared(c.trim.apply(typed).(T)), nil
	}
	if m.GetName() == "" {
		return zero, err
	}
	return zero, newObjectError(m, t, err)
}

// shared returns a copy of o that shares equal parts with others and the previous state, if there is a sharer.
func (c *clientObjects[T]) shared(o T) T {
	if c.sharer == nil {
		return o
	}
	previous, _ := c.previous(object.KeyOf(o))
	if c.owned {
		return c.sharer.ShareOwned(o, previous)
	}
	return c.sharer.Share(o, previous)
}

func newObjectError(m metav1.Object, t EventType, err error) *ObjectError {
	return &ObjectError{Key: object.KeyOf(m), UID: string(m.GetUID()), ResourceVersion: m.GetResourceVersion(), Event: t, Err: err}
}

// check asserts that o is a T that belongs to the scope.
func (c *clientObjects[T]) check(o runtime.Object) (T, error) {
	t, ok := o.(T)
	if !ok {
		return t, fmt.Errorf("got an object of type %T where %T is wanted", o, t)
	}
	if err := c.checkKind(o); err != nil {
		return t, err
	}
	return t, c.scope.checkNamespace(t)
}

// checkKind rejects objects of another kind than the scope's. Typed clients leave the kind empty.
func (c *clientObjects[T]) checkKind(o runtime.Object) error {
	got, want := o.GetObjectKind().GroupVersionKind(), c.scope.Kind
	if got.Empty() || want.Empty() || got == want || formOf(reflect.TypeFor[T]()) == partialForm && got == partialKind {
		return nil
	}
	return &KindError{Got: got, Want: want}
}
