package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tidings/tidings/examples/internal/cluster"
)

// services writes the Services in a namespace.
type services struct{ client typed.ServiceInterface }

func newServices(c *cluster.Cluster) (services, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return services{}, err
	}
	return services{client.CoreV1().Services(c.Namespace)}, nil
}

// ensure makes the Service with this name point to the host, and returns what it did.
func (s services) ensure(ctx context.Context, name, host string) (string, error) {
	service, err := s.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		service = &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
		}
		_, err = s.client.Create(ctx, service, metav1.CreateOptions{})
		return fmt.Sprintf("%s: created a service that points to %s", name, host), err
	}
	if err != nil {
		return "", err
	}
	service.Spec.ExternalName = host
	_, err = s.client.Update(ctx, service, metav1.UpdateOptions{})
	return fmt.Sprintf("%s: the service points to %s", name, host), err
}

// remove deletes the Service with this name, and returns what it did.
func (s services) remove(ctx context.Context, name string) (string, error) {
	err := s.client.Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return name + ": deleted the service", err
}
