package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// nodeName is the node to which all pods are bound.
const nodeName = "node"

// kubelet brings up the pods of the control plane, which has neither a scheduler nor nodes: it
// binds them, and sets their phase to running, or to succeeded if a Job owns them. It polls all
// pods, so that it does not depend on an engine.
type kubelet struct {
	client kubernetes.Interface
	nextIP int
}

// run works until ctx ends.
func (k *kubelet) run(ctx context.Context) {
	wait.UntilWithContext(ctx, k.lookAtPods, 100*time.Millisecond)
}

func (k *kubelet) lookAtPods(ctx context.Context) {
	pods, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
	if err != nil {
		return // the server is down and will come back
	}
	for i := range pods.Items {
		if err := k.bringUp(ctx, &pods.Items[i]); err != nil {
			continue // it is gone or has changed: the next poll will tell
		}
	}
}

func (k *kubelet) bringUp(ctx context.Context, pod *corev1.Pod) error {
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
		fresh, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod = fresh
	}
	k.nextIP++
	ip := fmt.Sprintf("10.%d.%d.%d", k.nextIP>>16&255, k.nextIP>>8&255, k.nextIP&255)
	pod.Status = runningStatus(pod, ip)
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func runningStatus(pod *corev1.Pod, ip string) corev1.PodStatus {
	now := metav1.Now()
	s := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now}
	ready := corev1.ConditionTrue
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
		s.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: now, FinishedAt: now, Reason: "Completed"}}
	}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: now}}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: ready == corev1.ConditionTrue, Started: ptr.To(true), State: state})
	}
	return s
}

// createNode creates the node to which pods are bound.
func createNode(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	return err
}
