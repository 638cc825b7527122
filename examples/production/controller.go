package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/operator"
)

const finalizer = "demo.example.com/goodbye"

// reconciler keeps a ConfigMap for each Greeting. It reads from caches and writes with clients.
type reconciler struct {
	greetings *tidings.SharedInformer[*Greeting]
	maps      *tidings.SharedInformer[*corev1.ConfigMap]
	write     *client.Client[*Greeting]
	writeMaps *client.Client[*corev1.ConfigMap]
	goodbye   func(ctx context.Context, name string) error // cleans up outside of the cluster
}

// addTo adds a controller with the reconciler to the operator.
func addTo(op *operator.Operator, goodbye func(ctx context.Context, name string) error) error {
	var errs [4]error
	r := &reconciler{goodbye: goodbye}
	r.greetings, errs[0] = tidings.Informer[*Greeting](op.Factory, tidings.Scope{Resource: resource})
	r.maps, errs[1] = tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{})
	r.write, errs[2] = client.New[*Greeting](op.Config, resource)
	r.writeMaps, errs[3] = client.New[*corev1.ConfigMap](op.Config, corev1.SchemeGroupVersion.WithResource("configmaps"))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	c := controller.New("greetings", r.reconcile, controller.Options{Workers: 2})
	return errors.Join(
		controller.WatchKeys(c, r.greetings),
		controller.Watch(c, r.maps, controller.Owner[*corev1.ConfigMap](r.greetings, kind.GroupKind())),
		op.Manager.Add(c),
	)
}

// reconcile retries by returning an error: a conflict too, since the cache will have the newer state then.
func (r *reconciler) reconcile(ctx context.Context, key tidings.Key) (result controller.Result, err error) {
	held, ok := r.greetings.Get(key)
	if !ok {
		return result, nil
	}
	g := held.DeepCopy() // objects in a cache are read-only
	if g.DeletionTimestamp != nil {
		return result, r.finalize(ctx, g)
	}
	if controller.AddFinalizer(g, finalizer) {
		if g, err = r.write.Update(ctx, g); err != nil {
			return result, err
		}
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Written", ObservedGeneration: g.Generation}
	if g.Spec.Text == "" {
		ready.Status, ready.Reason = metav1.ConditionFalse, "NoText"
	} else if err := r.ensureMap(ctx, g); err != nil {
		return result, err
	}
	if meta.SetStatusCondition(&g.Status.Conditions, ready) {
		_, err = r.write.UpdateStatus(ctx, g)
	}
	return result, err
}

func (r *reconciler) ensureMap(ctx context.Context, g *Greeting) error {
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}
	_, err := controller.CreateOrUpdate(ctx, r.maps, r.writeMaps, want, func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"text": g.Spec.Text}
		return controller.SetOwner(g, kind, m)
	})
	return err
}

func (r *reconciler) finalize(ctx context.Context, g *Greeting) error {
	if !controller.RemoveFinalizer(g, finalizer) {
		return nil
	}
	if err := r.goodbye(ctx, g.Name); err != nil {
		return err
	}
	_, err := r.write.Update(ctx, g)
	return err
}
