package clientgo

import (
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// Admissionregistration returns the accessors of the group.
func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Internal returns the accessors of the group.
func (f *factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Apps returns the accessors of the group.
func (f *factory) Apps() apps.Interface {
	return apps.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Autoscaling returns the accessors of the group.
func (f *factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Batch returns the accessors of the group.
func (f *factory) Batch() batch.Interface {
	return batch.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Certificates returns the accessors of the group.
func (f *factory) Certificates() certificates.Interface {
	return certificates.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Coordination returns the accessors of the group.
func (f *factory) Coordination() coordination.Interface {
	return coordination.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Core returns the accessors of the group.
func (f *factory) Core() core.Interface {
	return core.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Discovery returns the accessors of the group.
func (f *factory) Discovery() discovery.Interface {
	return discovery.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Events returns the accessors of the group.
func (f *factory) Events() events.Interface {
	return events.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Extensions returns the accessors of the group.
func (f *factory) Extensions() extensions.Interface {
	return extensions.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Flowcontrol returns the accessors of the group.
func (f *factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Networking returns the accessors of the group.
func (f *factory) Networking() networking.Interface {
	return networking.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Node returns the accessors of the group.
func (f *factory) Node() node.Interface {
	return node.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Policy returns the accessors of the group.
func (f *factory) Policy() policy.Interface {
	return policy.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Rbac returns the accessors of the group.
func (f *factory) Rbac() rbac.Interface {
	return rbac.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Resource returns the accessors of the group.
func (f *factory) Resource() resource.Interface {
	return resource.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Scheduling returns the accessors of the group.
func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Storage returns the accessors of the group.
func (f *factory) Storage() storage.Interface {
	return storage.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}

// Storagemigration returns the accessors of the group.
func (f *factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(accessors{f}, f.opts.namespace, f.opts.tweak)
}
