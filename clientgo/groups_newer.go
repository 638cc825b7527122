//go:build !clientgo_0_36

package clientgo

import "k8s.io/client-go/informers/lifecycle"

// Lifecycle returns the accessors of the group.
func (f *factory) Lifecycle() lifecycle.Interface {
	return lifecycle.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}
