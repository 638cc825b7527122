// Package controller reconciles fleets. It is an ordinary operator: it uses controller-runtime, and
// does not depend on which cache it reads from.
package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tidings/tidings/controllerruntime/examples/fleet/api"
)

const (
	// Finalizer blocks the deletion of a fleet until its entry is removed from the register.
	Finalizer = "harbor.example.com/register"
	// OrdersAnnotation is the annotation with which a pod gets its fleet's orders.
	OrdersAnnotation = "harbor.example.com/orders"
	// Register is the name of the ConfigMap, in the Reconciler's RegisterNamespace, that has an entry for each fleet.
	Register = "register"

	byOrders = "spec.orders"
	byOwner  = "metadata.controller"
)

// Reconciler reconciles fleets.
type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
	// RegisterNamespace is the namespace of the register.
	RegisterNamespace string
}

// SetupWithManager adds the controller and its field indexes to a manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	index := mgr.GetFieldIndexer()
	if err := index.IndexField(ctx, &api.Fleet{}, byOrders, func(obj client.Object) []string { return []string{obj.(*api.Fleet).Spec.Orders} }); err != nil {
		return err
	}
	if err := index.IndexField(ctx, &corev1.Pod{}, byOwner, ownerOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Fleet{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.fleetsWithOrders)).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 2}).
		Complete(r)
}

// ownerOf returns the name of the fleet that owns a pod.
func ownerOf(obj client.Object) []string {
	if owner := metav1.GetControllerOf(obj); owner != nil && owner.Kind == "Fleet" {
		return []string{owner.Name}
	}
	return nil
}

// fleetsWithOrders returns requests for the fleets whose orders are in a ConfigMap.
func (r *Reconciler) fleetsWithOrders(ctx context.Context, orders client.Object) (requests []reconcile.Request) {
	var fleets api.FleetList
	if err := r.List(ctx, &fleets, client.InNamespace(orders.GetNamespace()), client.MatchingFields{byOrders: orders.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The fleets with these orders cannot be listed")
	}
	for i := range fleets.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&fleets.Items[i])})
	}
	return requests
}

// Reconcile brings a fleet to its desired state.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var fleet api.Fleet
	if err := r.Get(ctx, request.NamespacedName, &fleet); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !fleet.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, &fleet)
	}
	if controllerutil.AddFinalizer(&fleet, Finalizer) {
		if err := r.Update(ctx, &fleet); err != nil {
			return ctrl.Result{}, ignoreConflict(err)
		}
	}
	if err := r.register(ctx, &fleet); err != nil {
		return ctrl.Result{}, err
	}
	pods, err := r.reconcilePods(ctx, &fleet)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, client.IgnoreNotFound(ignoreConflict(r.updateStatus(ctx, &fleet, pods)))
}

// ignoreConflict ignores a conflict: it only means that the cache is stale, and the event of the
// newer state is on its way.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// reconcilePods creates and deletes pods, and sets their orders. It returns the pods that the fleet keeps.
func (r *Reconciler) reconcilePods(ctx context.Context, fleet *api.Fleet) ([]corev1.Pod, error) {
	orders, err := r.orders(ctx, fleet)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(fleet.Namespace), client.MatchingFields{byOwner: fleet.Name}); err != nil {
		return nil, err
	}
	missing := sets.New[string]()
	for i := range fleet.Spec.Size {
		missing.Insert(fmt.Sprintf("%s-%d", fleet.Name, i))
	}
	var kept []corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case !pod.DeletionTimestamp.IsZero():
			missing.Delete(pod.Name) // its name is still taken
		case !missing.Has(pod.Name):
			err = r.Delete(ctx, pod)
		default:
			missing.Delete(pod.Name)
			kept = append(kept, *pod)
			err = r.setOrders(ctx, pod, orders)
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if err := r.createPod(ctx, fleet, name, orders); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// orders returns the fleet's orders, or "" if there are none.
func (r *Reconciler) orders(ctx context.Context, fleet *api.Fleet) (string, error) {
	if fleet.Spec.Orders == "" {
		return "", nil
	}
	var config corev1.ConfigMap
	err := r.Get(ctx, client.ObjectKey{Namespace: fleet.Namespace, Name: fleet.Spec.Orders}, &config)
	return config.Data["orders"], client.IgnoreNotFound(err)
}

func (r *Reconciler) setOrders(ctx context.Context, pod *corev1.Pod, orders string) error {
	if pod.Annotations[OrdersAnnotation] == orders {
		return nil
	}
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, OrdersAnnotation, orders)
	return r.Patch(ctx, pod, before)
}

func (r *Reconciler) createPod(ctx context.Context, fleet *api.Fleet, name, orders string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name, Annotations: map[string]string{OrdersAnnotation: orders}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "crew", Image: fleet.Spec.Image}}},
	}
	if err := controllerutil.SetControllerReference(fleet, pod, r.Scheme); err != nil {
		return err
	}
	return r.Create(ctx, pod)
}

// updateStatus updates the status.
func (r *Reconciler) updateStatus(ctx context.Context, fleet *api.Fleet, pods []corev1.Pod) error {
	status := api.FleetStatus{Pods: len(pods)}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			status.Ready++
		}
	}
	if status == fleet.Status {
		return nil
	}
	fleet.Status = status
	return r.Status().Update(ctx, fleet)
}

// finalize removes a fleet from the register and then removes the finalizer.
func (r *Reconciler) finalize(ctx context.Context, fleet *api.Fleet) error {
	if !controllerutil.ContainsFinalizer(fleet, Finalizer) {
		return nil
	}
	if err := r.unregister(ctx, fleet); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(fleet, Finalizer)
	return ignoreConflict(r.Update(ctx, fleet))
}

// register adds a fleet to the register.
func (r *Reconciler) register(ctx context.Context, fleet *api.Fleet) error {
	var register corev1.ConfigMap
	if err := r.Get(ctx, client.ObjectKey{Namespace: r.RegisterNamespace, Name: Register}, &register); err != nil {
		return err
	}
	if _, entered := register.Data[registerKey(fleet)]; entered {
		return nil
	}
	return r.setRegisterEntry(ctx, fleet, string(fleet.UID))
}

// unregister removes a fleet from the register. It does not check the cache for an entry first,
// since the cache may not have it yet.
func (r *Reconciler) unregister(ctx context.Context, fleet *api.Fleet) error {
	return r.setRegisterEntry(ctx, fleet, nil)
}

// setRegisterEntry sets a fleet's entry in the register; nil removes it.
func (r *Reconciler) setRegisterEntry(ctx context.Context, fleet *api.Fleet, value any) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]any{registerKey(fleet): value}})
	if err != nil {
		return err
	}
	register := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.RegisterNamespace, Name: Register}}
	return r.Patch(ctx, register, client.RawPatch(types.MergePatchType, patch))
}

// registerKey returns the key of a fleet's entry in the register.
func registerKey(fleet *api.Fleet) string { return fleet.Namespace + "." + fleet.Name }
