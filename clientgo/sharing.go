package clientgo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// NewSharedIndexInformerView returns another informer over the watch and the store of one that
// NewSharedIndexInformerFromSource has returned. Its readers, handlers and index functions get what convert returns
// for each object: the same as long as somebody holds it. A nil convert shows the objects as they are. convert must be
// pure, and must not modify the object. It returns the object, one of its own that has the same key and shares nothing
// that can be written to, or nil to leave the object out.
//
// A view is the list and the changes that a watch of its own would have brought. What is left out does not exist in it:
// a handler gets an object added when it is shown for the first time or again, and deleted when it is left out. An
// object for which convert fails or panics exists, in a state that cannot be read, as one that cannot be decoded:
// GetByKey returns the error, lists and indexes lack the object, and a handler keeps the state that it knows until
// there is a new one, or the object is gone.
//
// Handlers, indexes and lifecycle are the informer's own, and its objects are read-only like all others; so is its
// store. The watch ends when the last informer over it has ended. An informer with a transform has no views.
func NewSharedIndexInformerView(
	of cache.SharedIndexInformer, convert func(tidings.Object) (tidings.Object, error),
	options cache.SharedIndexInformerOptions,
) (cache.SharedIndexInformer, error) {
	base, ok := oursOf(of)
	if !ok || base.sharing == nil {
		return nil, fmt.Errorf("clientgo: new view: a %T has none; pass an informer of "+
			"NewSharedIndexInformerFromSource", of)
	}
	native, err := base.native.Share()
	if err != nil {
		return nil, fmt.Errorf("clientgo: new view: %w", err)
	}
	inf := &informer{
		metrics: newInformerMetrics(options.Identifier, options.InformerMetricsProvider),
		sharing: base.sharing, shows: newConversion(convert),
	}
	if inf.shows != nil {
		inf.shows.guard = newViewGuard(native, inf.shows)
	}
	err = inf.init(native, options.ObjectDescription, options.ObjectDescription, options.ResyncPeriod, options.Indexers)
	if err == nil {
		err = inf.sharing.join(inf)
	}
	if err != nil {
		err = fmt.Errorf("clientgo: new view for %s: %w", options.ObjectDescription, err)
		return nil, errors.Join(err, native.Stop(context.Background()))
	}
	return inf, nil
}

// sharing is what the informers over one watch have in common. A nil one is that of an informer that has no views.
type sharing struct {
	mu          sync.Mutex
	all         []*informer // that have not ended
	transformed bool        // the objects that are held are not the server's; no view is possible
	begun       bool        // the watch runs, or has run; it is too late for a transform
}

var errTransformed = errors.New("informers in several forms share the watch, which excludes a transform; " +
	"set the transform before the other informers are made")

var errBegun = errors.New("another informer over the same watch has run; set the transform before that")

// begin notes that the watch runs.
func (s *sharing) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

// join adds an informer.
func (s *sharing) join(inf *informer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.transformed {
		return errTransformed
	}
	s.all = append(s.all, inf)
	return nil
}

// leave removes an informer.
func (s *sharing) leave(inf *informer) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(other *informer) bool { return other == inf })
}

// setTransformed notes whether there is a transform.
func (s *sharing) setTransformed(transformed bool) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if transformed && len(s.all) > 1 {
		return errTransformed
	}
	if transformed && s.begun {
		return errBegun
	}
	s.transformed = transformed
	return nil
}

// handleError passes an error of the watch to all informers.
func (s *sharing) handleError(err error) {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, inf := range all {
		inf.handleError(err)
	}
}
