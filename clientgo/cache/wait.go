package cache

import (
	"context"

	upstream "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// WaitFor calls client-go's WaitFor. Its log messages name the caller's line.
func WaitFor(ctx context.Context, what string, checkers ...DoneChecker) bool {
	helper, logger := klog.FromContext(ctx).WithCallStackHelper()
	helper()
	return upstream.WaitFor(klog.NewContext(ctx, logger), what, checkers...)
}
