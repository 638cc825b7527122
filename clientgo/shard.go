package clientgo

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/intake"
)

// SetShardSelector makes the informer hold the objects of a shard only. They are requested with the selector, and
// filtered by it because a server may ignore it. It has to be set before the start. An informer whose watch is shared
// with others has none.
func (inf *informer) SetShardSelector(selector sharding.Selector) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return errStarted
	}
	if selector != nil && selector.Empty() {
		selector = nil
	}
	if err := inf.sharing.setTransformed(selector != nil || inf.transform != nil); err != nil {
		return fmt.Errorf("%s: set shard selector: %w", inf.native.Name(), err)
	}
	inf.shard = selector
	return nil
}

// WithShardSelector limits the factory's informers to the objects of a shard; see their SetShardSelector. client-go has
// this option from 0.38 on.
func WithShardSelector(selector sharding.Selector) Option {
	return func(o *factoryOptions) { o.shard = selector }
}

// setShard sets an informer's shard selector, if it can have one. client-go's informers can from 0.38 on.
func setShard(inf cache.SharedIndexInformer, selector sharding.Selector) {
	if selector == nil {
		return
	}
	err := fmt.Errorf("a %T has no shards", inf)
	if ours, ok := oursOf(inf); ok {
		err = ours.SetShardSelector(selector)
	} else if sharded, ok := inf.(interface {
		SetShardSelector(sharding.Selector) error
	}); ok {
		err = sharded.SetShardSelector(selector)
	}
	if err != nil {
		klog.Background().Error(err, "The factory's shard selector is not used")
	}
}

// shardOf returns the shard selector among an informer's options, which client-go has from 0.38 on.
func shardOf(options cache.SharedIndexInformerOptions) sharding.Selector {
	field := reflect.ValueOf(options).FieldByName("ShardSelector")
	if !field.IsValid() {
		return nil
	}
	selector, _ := field.Interface().(sharding.Selector)
	return selector
}

// prepared returns the context for an informer's requests, and the transform for its objects, nil if there is none.
func (inf *informer) prepared(ctx context.Context) (context.Context, func(tidings.Object) (tidings.Object, error)) {
	var transform func(tidings.Object) (tidings.Object, error)
	if inf.transform != nil {
		transform = nativeTransform(inf.transform)
	}
	if inf.shard == nil {
		return ctx, transform
	}
	return intake.WithShard(ctx, inf.shard.String()), filtered(inf.shard, transform)
}

// filtered returns a transform that leaves out the objects of other shards. An error of the selector leaves an object
// in.
func filtered(
	shard sharding.Selector, transform func(tidings.Object) (tidings.Object, error),
) func(tidings.Object) (tidings.Object, error) {
	return func(obj tidings.Object) (tidings.Object, error) {
		belongs, err := shard.Matches(obj)
		switch {
		case err != nil:
			return obj, err
		case !belongs:
			return nil, nil
		case transform == nil:
			return obj, nil
		}
		return transform(obj)
	}
}
