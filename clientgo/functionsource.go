package clientgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/source"
)

// functionSource is a source over a ListerWatcher made of functions. It reads the server through them if it can; see
// Wrap. Otherwise it has what they return.
type functionSource struct {
	intake.Internals // functionInternals
	lw               listWatch
	example          tidings.Object
	scope            source.Scope                         // of sources that read the server, without what the functions choose
	plain            source.ListerWatcher[tidings.Object] // what the functions return
	unlike           atomic.Pointer[string]               // why the functions are not read through any longer
	unread           atomic.Pointer[string]               // why the last call was not read through; nil if it was
	private          bool                                 // the objects are not shared with others

	mu           sync.Mutex
	natives      map[target]*collectionSource
	onStrayWrite func(field string)
}

// newFunctionSource returns a source over lw's functions. Its objects have the example's type.
func newFunctionSource(lw cache.ListerWatcher, example tidings.Object, scope source.Scope) (*functionSource, error) {
	s := &functionSource{lw: newListWatch(lw), example: example, scope: scope, natives: map[target]*collectionSource{}}
	plain, err := source.FromClient[tidings.Object](pendingClient{s.lw}, source.Scope{})
	if err != nil {
		return nil, err
	}
	s.plain = newTypeChecked(plain, example)
	s.Internals = intake.NewInternals(functionInternals{s})
	return s, nil
}

// ObjectType returns the type of the objects.
func (s *functionSource) ObjectType() reflect.Type { return reflect.TypeOf(s.example) }

// Unnumbered reports whether the functions are those of a fake client.
func (s *functionSource) Unnumbered() bool { return s.lw.Unnumbered() }

// List implements source.ListerWatcher.
func (s *functionSource) List(
	ctx context.Context, opts source.ListOptions[tidings.Object], each func(tidings.Object) error,
) (source.ListResult, error) {
	by := intake.Previous[tidings.Object](opts.Previous)
	return functionInternals{s}.ListDecoded(ctx, opts, by, func(r received) error { return each(r.Object) })
}

// Watch implements source.ListerWatcher.
func (s *functionSource) Watch(
	ctx context.Context, opts source.WatchOptions[tidings.Object],
) (source.Stream[tidings.Object], error) {
	return functionInternals{s}.WatchDecoded(ctx, opts, intake.Previous[tidings.Object](opts.Previous))
}

type (
	received = intake.Received[tidings.Object]
	decoder  = intake.Decoder[tidings.Object]
)

// functionInternals are the internals of a functionSource.
type functionInternals struct{ *functionSource }

// Self returns the source, whose objects are decoded by those who hold them.
func (s functionInternals) Self() any { return s.functionSource }

// SharedBytes is as in intake.SharedParts.
func (s functionInternals) SharedBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := intake.SharedParts{Of: s.plain}.SharedBytes()
	for _, native := range s.natives {
		bytes += intake.SharedParts{Of: native}.SharedBytes()
	}
	return bytes
}

// OnStrayWrite is as in intake.SharedParts.
func (s functionInternals) OnStrayWrite(f func(field string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onStrayWrite = f
	intake.SharedParts{Of: s.plain}.OnStrayWrite(f)
}

// reads reports whether the functions may be read through.
func (s *functionSource) reads() bool {
	return anyWrapped.Load() && s.unlike.Load() == nil && !s.lw.unstreamed
}

// Stats adds the counters of the sources that read the server, and says why there are none.
func (s *functionSource) Stats() (sum source.Stats) {
	s.mu.Lock()
	for _, native := range s.natives {
		of := native.Stats()
		sum.Bytes, sum.Objects = sum.Bytes+of.Bytes, sum.Objects+of.Objects
		sum.Reused, sum.Corrupted = sum.Reused+of.Reused, sum.Corrupted+of.Corrupted
	}
	s.mu.Unlock()
	switch why, unread := s.unlike.Load(), s.unread.Load(); {
	case why != nil:
		sum.FromFunctions = *why
	case s.lw.unstreamed:
		sum.FromFunctions = "the functions have a fake client"
	case !anyWrapped.Load():
		sum.FromFunctions = notWrapped
	case unread != nil:
		sum.FromFunctions = *unread
	}
	return sum
}

// Reasons why calls are not read through.
var (
	notWrapped = "the functions send no request through a client of a config that clientgo.Wrap returned"
	notKnown   = "the functions request something else than a collection of objects of the informer's type"
)

// distrust makes the source use what the functions return from now on.
func (s *functionSource) distrust(why error) {
	text := why.Error()
	if s.unlike.CompareAndSwap(nil, &text) {
		klog.Background().Info("Warning: the informer uses what its list and watch functions return, which costs the client's decoding",
			"type", fmt.Sprintf("%T", s.example), "why", text)
	}
}

// ListDecoded lists for a caller that decodes the objects.
func (s functionInternals) ListDecoded(
	ctx context.Context, opts source.ListOptions[tidings.Object], by decoder, each func(received) error,
) (source.ListResult, error) {
	if !s.reads() {
		return s.listPlainly(ctx, opts, each)
	}
	c := startCall(ctx, func(ctx context.Context) (runtime.Object, error) {
		return s.lw.ListWithContext(ctx, listOptions(opts))
	})
	defer c.end(nil)
	unread := &notWrapped
	for {
		a := c.next(ctx)
		if a == nil {
			if c.succeeded() {
				s.unread.Store(unread)
			}
			return s.listPlainly(context.WithValue(ctx, pendingKey{}, c), opts, each)
		}
		native := s.nativeFor(a.request, false)
		if native == nil {
			unread = &notKnown
			a.answer(answer{pass: true})
			continue
		}
		unread = nil
		s.unread.Store(nil)
		result, err := s.listThrough(ctx, native, a, c, opts, by, each)
		switch {
		case errors.Is(err, errPassed):
			continue // the function deals with it
		case !isUnlike(err):
			return result, err
		case errors.Is(err, errFailed):
			return s.listAfterFailure(ctx, opts, each)
		}
		s.distrust(err)
		if opts.Continue != "" {
			return result, errStartAgain // the pages before may be wrong, too
		}
		return s.listPlainly(ctx, opts, each)
	}
}

// listAfterFailure lists with a function that has failed. If it does not fail again, it failed because it was read
// through.
func (s *functionSource) listAfterFailure(
	ctx context.Context, opts source.ListOptions[tidings.Object], each func(received) error,
) (source.ListResult, error) {
	result, err := s.listPlainly(ctx, opts, each)
	if err == nil {
		s.distrust(errFailed)
	}
	return result, err
}

// errStartAgain makes the reflector list everything again.
var errStartAgain = apierrors.NewResourceExpired("the functions turned out to change what they list")

// listThrough reads the answer to the function's request.
func (s *functionSource) listThrough(
	ctx context.Context, native *collectionSource, a *arrival, c *call[runtime.Object],
	opts source.ListOptions[tidings.Object], by decoder, each func(received) error,
) (result source.ListResult, err error) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, arrivalKey{}, a))
	defer cancel()
	defer func() { a.answer(answer{err: err}) }() // unless it has been answered
	opts.NoSharing = opts.NoSharing || s.private
	size := sampleSize
	if opts.Continue != "" {
		size = laterSampleSize
	}
	w := &window{decoder: by, each: each, check: func(objects []tidings.Object) error {
		return s.checkList(ctx, a, c, spread(objects, size))
	}}
	if _, partial := s.example.(*metav1.PartialObjectMetadata); partial {
		result, err = native.List(ctx, opts, func(o tidings.Object) error { return w.take(received{Object: o}) })
	} else {
		result, err = intake.InternalsOf(native).(collectionInternals).ListDecoded(ctx, opts, w, w.take)
	}
	if err == nil {
		err = w.open()
	}
	return result, err
}

func (s *functionSource) listPlainly(
	ctx context.Context, opts source.ListOptions[tidings.Object], each func(received) error,
) (source.ListResult, error) {
	return s.plain.List(ctx, opts, func(o tidings.Object) error { return each(received{Object: o}) })
}

// WatchDecoded watches for a caller that decodes the objects.
func (s functionInternals) WatchDecoded(
	ctx context.Context, opts source.WatchOptions[tidings.Object], by decoder,
) (source.Stream[tidings.Object], error) {
	if !s.reads() || opts.SendInitialEvents && !streams() {
		return s.plain.Watch(ctx, opts)
	}
	c := startCall(ctx, func(ctx context.Context) (watch.Interface, error) {
		return s.lw.WatchWithContext(ctx, watchOptions(opts))
	})
	unread := &notWrapped
	for {
		a := c.next(ctx)
		if a == nil {
			if c.succeeded() {
				s.unread.Store(unread)
			}
			c.end(nil)
			return s.plain.Watch(context.WithValue(ctx, pendingKey{}, c), opts)
		}
		native := s.nativeFor(a.request, true)
		if native == nil {
			unread = &notKnown
			a.answer(answer{pass: true})
			continue
		}
		unread = nil
		s.unread.Store(nil)
		stream, err := s.watchThrough(ctx, native, a, c, opts, by)
		switch {
		case err == nil:
			return stream, nil
		case errors.Is(err, errPassed):
			continue // the function deals with it
		}
		a.answer(answer{err: err})
		c.end(stopAndDrain)
		if !isUnlike(err) {
			return nil, err
		}
		plain, failure := s.plain.Watch(ctx, opts)
		if failure == nil || !errors.Is(err, errFailed) {
			s.distrust(err)
		}
		return plain, failure
	}
}

// watchThrough reads the answer to the function's request.
func (s *functionSource) watchThrough(
	ctx context.Context, native *collectionSource, a *arrival, c *call[watch.Interface],
	opts source.WatchOptions[tidings.Object], by decoder,
) (source.Stream[tidings.Object], error) {
	reading := context.WithValue(ctx, arrivalKey{}, a)
	opts.NoSharing = opts.NoSharing || s.private
	_, partial := s.example.(*metav1.PartialObjectMetadata)
	var stream source.Stream[tidings.Object]
	var err error
	if partial {
		stream, err = native.Watch(reading, opts)
	} else {
		stream, err = intake.InternalsOf(native).(collectionInternals).WatchDecoded(reading, opts, by)
	}
	if err != nil {
		return nil, err
	}
	f := newFunctionStream(ctx, stream, s, a, c, opts)
	if f.function, err = finish(ctx, c); err != nil {
		_ = f.end() // the error would be that of a connection that is not needed
		return nil, err
	}
	return f, nil
}

// nativeFor returns a source that reads the answer to a request of the functions, or nil if there is none.
func (s *functionSource) nativeFor(request *http.Request, watches bool) *collectionSource {
	of, err := targetOf(request, watches)
	if err != nil || !asksFor(request, s.example) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if native := s.natives[of]; native != nil {
		return native
	}
	native, err := s.newNative(of)
	if err != nil {
		return nil
	}
	if s.onStrayWrite != nil {
		intake.SharedParts{Of: native}.OnStrayWrite(s.onStrayWrite)
	}
	s.natives[of] = native
	return native
}

func (s *functionSource) newNative(of target) (*collectionSource, error) {
	config := &rest.Config{Host: "http://function.invalid"} // requests have the functions' address
	client, err := source.NewClientFor(config, &http.Client{Transport: arrivalTransport{}})
	if err != nil {
		return nil, err
	}
	intake.InternalsOf(client).(interface{ Uncounted() }).Uncounted()
	scope := s.scope
	scope.Resource, scope.Namespace = of.resource, of.namespace
	if u, ok := s.example.(*unstructured.Unstructured); ok {
		scope.Kind = u.GroupVersionKind()
	}
	src, err := source.NewHTTPLike(client, scope, s.example)
	if err != nil {
		return nil, err
	}
	return newCollectionSource(src, nil), nil
}
