package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/examples/internal/website"
)

// operator reads from informers and writes with clients.
type operator struct {
	websites      *tidings.SharedInformer[*website.Website]
	services      *tidings.SharedInformer[*corev1.Service]
	websiteClient *website.Client
	serviceClient typed.ServiceInterface
	news          cluster.News
}

// reconcile brings the Service and the status in line with the Website of this key. It only depends
// on the current state, so it may be called at any time.
func (o *operator) reconcile(ctx context.Context, key tidings.Key) (controller.Result, error) {
	site, ok := o.websites.Get(key)
	if !ok || site.DeletionTimestamp != nil {
		return controller.Result{}, nil // the server's garbage collector deletes the dependents
	}
	if err := o.ensureService(ctx, site); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{}, o.ensureStatus(ctx, site)
}

func (o *operator) ensureService(ctx context.Context, site *website.Website) error {
	service, ok := o.services.Get(tidings.Key{Namespace: site.Namespace, Name: site.Name})
	if ok && service.Spec.ExternalName == site.Spec.Host {
		return nil
	}
	var err error
	if !ok {
		service, err = o.serviceClient.Create(ctx, newService(site), metav1.CreateOptions{})
	} else {
		service = service.DeepCopy() // objects in a cache are read-only
		service.Spec.ExternalName = site.Spec.Host
		service, err = o.serviceClient.Update(ctx, service, metav1.UpdateOptions{})
	}
	if err != nil {
		return err // the key is retried, with backoff
	}
	controller.Wrote(ctx, o.services, service) // no further reconcile of this key until the cache has seen the write
	o.news.Say("%s: the service points to %s", site.Name, site.Spec.Host)
	return nil
}

func (o *operator) ensureStatus(ctx context.Context, site *website.Website) error {
	want := website.Status{Service: site.Name, ObservedGeneration: site.Generation}
	if site.Status == want {
		return nil
	}
	changed := site.DeepCopy()
	changed.Status = want
	written, err := o.websiteClient.UpdateStatus(ctx, changed)
	if err != nil {
		return err
	}
	controller.Wrote(ctx, o.websites, written)
	o.news.Say("%s: the status reflects generation %d", site.Name, want.ObservedGeneration)
	return nil
}

func newService(site *website.Website) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: site.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(site, website.Kind)},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: site.Spec.Host},
	}
}
