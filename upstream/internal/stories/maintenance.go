package stories

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// drained is the node that is drained.
const drained = "node-2"

// guardedWeb is a Deployment of six replicas, of which one at a time may be missing.
func guardedWeb(w *world) error {
	if err := w.deploy("web", 6, "nginx:1.27", probed); err != nil {
		return err
	}
	if err := w.create("kubectl-create", gvr("policy", "poddisruptionbudgets"), `{"apiVersion": "policy/v1",
		"kind": "PodDisruptionBudget", "metadata": {"name": "web"},
		"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}`); err != nil {
		return err
	}
	if err := w.rolledOut("web"); err != nil {
		return err
	}
	return w.until("a budget that allows something", func() (bool, error) {
		pdb, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(w.ctx, "web", metav1.GetOptions{})
		return err == nil && pdb.Status.DisruptionsAllowed == 1, err
	})
}

// drain is kubectl drain: no new pods, and evictions that are tried again while a budget refuses them.
func drain(w *world) error {
	if err := w.cordon(true); err != nil {
		return err
	}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx,
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + drained})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if err := w.evict(pod); err != nil {
			return err
		}
	}
	if err := pause(w.ctx, time.Second); err != nil {
		return err
	}
	if err := w.rolledOut("web"); err != nil {
		return err
	}
	return w.cordon(false)
}

func (w *world) evict(pod corev1.Pod) error {
	return w.until("the eviction of "+pod.Name, func() (bool, error) {
		err := w.client.PolicyV1().Evictions(w.namespace).Evict(w.ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: w.namespace}})
		if apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// cordon is kubectl cordon and uncordon.
func (w *world) cordon(on bool) error {
	_, err := w.client.CoreV1().Nodes().Patch(w.ctx, drained, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on), metav1.PatchOptions{FieldManager: "kubectl-drain"})
	return err
}

// inhabited is a namespace with a Deployment, and an object that a finalizer will hold.
func inhabited(w *world) error {
	if err := w.create("archiver", core("configmaps"),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":["example.com/archive"]}}`,
	); err != nil {
		return err
	}
	return web3(w)
}

// vacate deletes the namespace, and after a while what holds it.
func vacate(w *world) error {
	namespaces := w.client.CoreV1().Namespaces()
	if err := namespaces.Delete(w.ctx, w.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := w.until("the deletion of what is held", func() (bool, error) { // after that of all pods
		held, err := w.client.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "held", metav1.GetOptions{})
		return err == nil && held.DeletionTimestamp != nil, err
	}); err != nil {
		return err
	}
	if err := pause(w.ctx, 7*time.Second); err != nil {
		return err
	}
	if err := w.patch("archiver", core("configmaps"), "held", `{"metadata":{"finalizers":null}}`); err != nil {
		return err
	}
	return w.until("the end of the namespace", func() (bool, error) {
		_, err := namespaces.Get(w.ctx, w.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
