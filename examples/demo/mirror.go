package main

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
)

// mirror is an informer of any type: a copy of one resource that should equal the server's.
type mirror struct {
	resource schema.GroupVersionResource
	changed  <-chan struct{}
	versions func() map[tidings.Key]string // of the cached objects
	status   func() tidings.Status
}

// watch starts an informer for each of the demo's resources, before there are any objects.
func (c *cluster) watch(ctx context.Context) (mirrors []mirror, end func(), err error) {
	factory, err := tidings.NewFactory(c.config, tidings.Options{})
	if err != nil {
		return nil, nil, err
	}
	end = func() { shutdown(factory) }
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	for _, add := range []func() (mirror, error){
		func() (mirror, error) { return newMirror[*corev1.ConfigMap](factory, core("configmaps")) },
		func() (mirror, error) { return newMirror[*corev1.Secret](factory, core("secrets")) },
		func() (mirror, error) { return newMirror[*corev1.Pod](factory, core("pods")) },
		func() (mirror, error) { return newMirror[*unstructured.Unstructured](factory, widgets) },
		func() (mirror, error) {
			return newMirror[*appsv1.ReplicaSet](factory, appsv1.SchemeGroupVersion.WithResource("replicasets"))
		},
		func() (mirror, error) {
			return newMirror[*corev1.ReplicationController](factory, core("replicationcontrollers"))
		},
	} {
		m, err := add()
		if err != nil {
			end()
			return nil, nil, err
		}
		mirrors = append(mirrors, m)
	}
	if err := factory.Start(ctx); err != nil {
		end()
		return nil, nil, err
	}
	if err := factory.WaitForSyncFailFast(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return mirrors, end, nil
}

func newMirror[T tidings.Object](f *tidings.Factory, resource schema.GroupVersionResource) (mirror, error) {
	inf, err := tidings.Informer[T](f, tidings.Scope{Resource: resource, Namespaces: []string{namespace}})
	if err != nil {
		return mirror{}, err
	}
	changed, err := signalOn(inf)
	versions := func() map[tidings.Key]string {
		all := map[tidings.Key]string{}
		for key, obj := range inf.Snapshot().All() {
			all[key] = obj.GetResourceVersion()
		}
		return all
	}
	return mirror{resource: resource, changed: changed, versions: versions, status: inf.Status}, err
}

// compare lists every resource and waits until the caches hold exactly those objects at those versions. The last
// changes may still be in transit.
func (c *cluster) compare(ctx context.Context, out *printer, mirrors []mirror) error {
	for _, m := range mirrors {
		list, err := c.metadata.Resource(m.resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want := map[tidings.Key]string{}
		for _, o := range list.Items {
			want[tidings.Key{Namespace: o.Namespace, Name: o.Name}] = o.ResourceVersion
		}
		for !maps.Equal(want, m.versions()) {
			select {
			case <-m.changed:
			case <-ctx.Done():
				return fmt.Errorf("%s: the server has %v, the cache %v: %w", m.resource.GroupResource(), want, m.versions(), ctx.Err())
			}
		}
		st := m.status()
		out.say("   %-24s %2d objects, each at the server's version; %3d events, %d relists", st.Resource, len(want),
			st.Parts[0].Reflector.Events, st.Parts[0].Reflector.Relists)
	}
	return nil
}
