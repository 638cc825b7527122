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
// pure, and must not modify the object. An object for which it fails is missing in lists; GetByKey returns the error.
//
// Handlers, indexes and lifecycle are the informer's own, and its objects are read-only like all others; so is its
// store. The watch ends when the last informer over it has ended. An informer with a transform has no views.
func NewSharedIndexInformerView(
	of cache.SharedIndexInformer, convert func(tidings.Object) (tidings.Object, error),
	options cache.SharedIndexInformerOptions,
) (cache.SharedIndexInformer, error) {
	base, ok := of.(*informer)
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
}

var errTransformed = errors.New("informers in several forms share the watch, which excludes a transform; " +
	"set the transform before the other informers are made")

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
