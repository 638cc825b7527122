package wiretest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setStatus fills in what the kubelet reports about a running pod; pods of a Job have completed.
func (c *cluster) setStatus(pod *corev1.Pod, w *workload, on node, started time.Time) {
	ready := started.Add(time.Duration(2+c.rng.IntN(30)) * time.Second)
	c.ip++
	ip := fmt.Sprintf("10.%d.%d.%d", 64+c.ip>>16&63, c.ip>>8&255, c.ip&255)
	pod.Status = corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		HostIP:             on.ip,
		HostIPs:            []corev1.HostIP{{IP: on.ip}},
		PodIP:              ip,
		PodIPs:             []corev1.PodIP{{IP: ip}},
		StartTime:          new(metav1.NewTime(started)),
		QOSClass:           corev1.PodQOSBurstable,
	}
	status, reason := corev1.ConditionTrue, ""
	if w.kind == job {
		pod.Status.Phase = corev1.PodSucceeded
		status, reason = corev1.ConditionFalse, "PodCompleted"
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		cond := corev1.PodCondition{Type: t, ObservedGeneration: 1, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(started)}
		switch t {
		case corev1.PodReady, corev1.ContainersReady:
			cond.Status, cond.Reason, cond.LastTransitionTime = status, reason, metav1.NewTime(ready)
		case corev1.PodReadyToStartContainers:
			cond.Status, cond.LastTransitionTime = status, metav1.NewTime(started.Add(time.Second))
		}
		pod.Status.Conditions = append(pod.Status.Conditions, cond)
	}
	for i := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, c.containerStatus(&pod.Spec.InitContainers[i], true, started))
	}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, c.containerStatus(&pod.Spec.Containers[i], w.kind == job, ready))
	}
}

func (c *cluster) containerStatus(container *corev1.Container, done bool, at time.Time) corev1.ContainerStatus {
	image := c.images[slices.IndexFunc(c.images, func(i image) bool { return i.ref == container.Image })]
	status := corev1.ContainerStatus{
		Name:        container.Name,
		Ready:       true,
		Image:       image.ref,
		ImageID:     image.id,
		ContainerID: "containerd://" + c.hex(64),
		Started:     new(!done),
	}
	if done {
		status.State.Terminated = &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: metav1.NewTime(at), FinishedAt: metav1.NewTime(at.Add(time.Minute)), ContainerID: status.ContainerID,
		}
		return status
	}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}
	if c.rng.IntN(20) == 0 {
		status.RestartCount = int32(1 + c.rng.IntN(3))
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", StartedAt: metav1.NewTime(at.Add(-time.Hour)), FinishedAt: metav1.NewTime(at.Add(-time.Second)),
			ContainerID: "containerd://" + c.hex(64),
		}
	}
	return status
}
