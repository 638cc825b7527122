package clientgo

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

// From 0.38 on, client-go's dynamic and metadata factories have a method whose result is of a type that earlier
// versions lack, cache.GVRSyncResult. So that one source compiles with all of them, the type is inferred: from
// the method of client-go's interface if that has it, or else from one that is embedded more deeply.

// gvrSyncResult has the fields of cache.GVRSyncResult.
type gvrSyncResult = struct {
	Err    error
	Synced map[schema.GroupVersionResource]bool
}

type withSyncResult struct {
	dynamicinformer.DynamicSharedInformerFactory
	olderThan038
}

type olderThan038 struct{ syncResult }

type syncResult struct{}

func (syncResult) WaitForCacheSyncWithContext(context.Context) gvrSyncResult { return gvrSyncResult{} }

// resourceFactoryOf is a resourceFactory with all methods of client-go's factories.
type resourceFactoryOf[R ~gvrSyncResult] struct{ *resourceFactory }

// WaitForCacheSyncWithContext waits until every started informer has its initial list, or until ctx ends. The result's
// error then says what keeps each remaining informer from syncing.
func (f resourceFactoryOf[R]) WaitForCacheSyncWithContext(ctx context.Context) R {
	synced, err := f.waitForSync(ctx)
	return R(gvrSyncResult{Err: err, Synced: synced})
}

// asFactory returns f as one of client-go's interfaces for dynamic and metadata factories.
func asFactory[F any](f *resourceFactory) F {
	return factoryWith[F](f, withSyncResult.WaitForCacheSyncWithContext)
}

// factoryWith is asFactory with the type of the result, which is that of the method.
func factoryWith[F any, R ~gvrSyncResult](f *resourceFactory, _ func(withSyncResult, context.Context) R) F {
	complete, ok := any(resourceFactoryOf[R]{f}).(F)
	if !ok {
		panic(fmt.Sprintf("clientgo: this version of client-go has other methods: the factory is no %v", reflect.TypeFor[F]()))
	}
	return complete
}
