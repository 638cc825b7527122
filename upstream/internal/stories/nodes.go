package stories

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// nodeNames are the nodes of the cluster.
var nodeNames = []string{"node-1", "node-2", "node-3"}

// nodes are the scheduler and the kubelets: for each pod, they write the statuses and Events of real ones, one after
// another, without running anything. What a container does is said by its image; see kubelet.
type nodes struct {
	ctx       context.Context
	client    kubernetes.Interface // of the kubelets
	scheduler kubernetes.Interface
	events    record.EventRecorder
	scheduled events.EventRecorder

	mu    sync.Mutex
	pods  map[types.UID]*kubelet
	bound int
	lives sync.WaitGroup
}

func newNodes(ctx context.Context, config *rest.Config) (*nodes, error) {
	client, err := kubernetes.NewForConfig(as(config, "kubelet"))
	if err != nil {
		return nil, err
	}
	scheduler, err := kubernetes.NewForConfig(as(config, "kube-scheduler"))
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	newer := events.NewBroadcaster(&events.EventSinkImpl{Interface: scheduler.EventsV1()})
	if err := newer.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	return &nodes{
		ctx: ctx, client: client, scheduler: scheduler, pods: map[types.UID]*kubelet{},
		events:    broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet"}),
		scheduled: newer.NewRecorder(scheme.Scheme, "default-scheduler"),
	}, nil
}

// run follows all pods until the context ends.
func (n *nodes) run() {
	defer n.lives.Wait()
	for n.ctx.Err() == nil {
		pods, err := n.client.CoreV1().Pods("").Watch(n.ctx, metav1.ListOptions{})
		if err != nil {
			_ = pause(n.ctx, 100*time.Millisecond)
			continue
		}
		for event := range pods.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				n.see(event.Type, pod)
			}
		}
	}
}

func (n *nodes) see(what watch.EventType, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.pods[pod.UID]
	switch {
	case what == watch.Deleted && k != nil:
		k.end()
		delete(n.pods, pod.UID)
	case what == watch.Deleted:
	case k == nil:
		k = &kubelet{nodes: n, pod: pod.DeepCopy(), deleting: make(chan struct{})}
		k.ctx, k.end = context.WithCancel(n.ctx)
		n.pods[pod.UID] = k
		n.lives.Go(k.live)
		fallthrough
	default:
		if pod.DeletionTimestamp != nil {
			k.once.Do(func() { close(k.deleting) })
		}
	}
}

// kubelet is the life of one pod. A tag of its image says what its container does:
//
//	missing   the image does not exist
//	crash     it exits with 1 at once, until it has been started five times
//	fail      it exits with 1, and is not started again
//	never     its readiness probe never succeeds
//	stuck     it takes a while to stop
//
// Any other runs, or if the pod belongs to a Job, succeeds.
type kubelet struct {
	*nodes
	ctx      context.Context
	end      func()
	pod      *corev1.Pod
	deleting chan struct{} // closed when the pod is to be deleted
	once     sync.Once
	starts   int32
}

func (k *kubelet) live() {
	if k.schedule() != nil {
		return
	}
	if k.wait(60*time.Millisecond) == nil {
		k.status(func(s *corev1.PodStatus) {
			s.StartTime, s.HostIP = ptr.To(metav1.Now()), "10.0.0.1"
			s.HostIPs = []corev1.HostIP{{IP: s.HostIP}}
			set(s, corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", "")
			set(s, corev1.PodInitialized, corev1.ConditionTrue, "", "")
			k.unready(s)
			k.container(s, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})
		})
		k.behave()
	}
	if k.ctx.Err() == nil {
		k.stop()
	}
}

// wait waits, and returns an error if the pod is to be deleted.
func (k *kubelet) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-k.deleting:
		return context.Canceled
	case <-k.ctx.Done():
		return context.Cause(k.ctx)
	}
}

// schedule binds the pod to a node, if one is large enough.
func (k *kubelet) schedule() error {
	if k.pod.Spec.NodeName != "" {
		return nil
	}
	if err := k.wait(20 * time.Millisecond); err != nil {
		return k.unscheduled()
	}
	if memory := k.pod.Spec.Containers[0].Resources.Requests.Memory(); memory.Value() > 64<<30 {
		const why = "0/3 nodes are available: 3 Insufficient memory. no new claims to deallocate, " +
			"preemption: 0/3 nodes are available: " +
			"3 Preemption is not helpful for scheduling."
		k.scheduled.Eventf(k.pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", why)
		k.write(k.scheduler, func(s *corev1.PodStatus) {
			set(s, corev1.PodScheduled, corev1.ConditionFalse,
				"Unschedulable", why)
		})
		<-k.deleting
		return k.unscheduled()
	}
	node, err := k.choose()
	if err != nil {
		return err
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: k.pod.Name, UID: k.pod.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := k.scheduler.CoreV1().Pods(k.pod.Namespace).Bind(k.ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	k.pod.Spec.NodeName = node
	k.scheduled.Eventf(k.pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %s/%s to %s", k.pod.Namespace, k.pod.Name, node)
	return nil
}

// unscheduled is the end of a pod that has no node: the server has already removed it.
func (k *kubelet) unscheduled() error { return context.Canceled }

// choose returns the next node that takes pods.
func (k *kubelet) choose() (string, error) {
	all, err := k.scheduler.CoreV1().Nodes().List(k.ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for range all.Items {
		node := all.Items[k.bound%len(all.Items)]
		k.bound++
		if !node.Spec.Unschedulable {
			return node.Name, nil
		}
	}
	return "", fmt.Errorf("no node takes pods")
}

func (k *kubelet) is(tag string) bool { return strings.Contains(k.pod.Spec.Containers[0].Image, tag) }

func (k *kubelet) event(kind, reason, format string, args ...any) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: k.pod.Namespace, Name: k.pod.Name,
		UID:       k.pod.UID,
		FieldPath: "spec.containers{" + k.pod.Spec.Containers[0].Name + "}"}
	k.events.Eventf(ref, kind, reason, format, args...)
}

// behave does what the container does until the pod is to be deleted.
func (k *kubelet) behave() {
	image := k.pod.Spec.Containers[0].Image
	k.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", image)
	if k.wait(150*time.Millisecond) != nil {
		return
	}
	if k.is(":missing") {
		k.cannotPull(image)
		return
	}
	k.event(corev1.EventTypeNormal, "Pulled",
		"Successfully pulled image %q in 148ms (148ms including waiting). Image size: 72319182 bytes.", image)
	for {
		if k.start() != nil {
			return
		}
		if k.is(":never") {
			k.neverReady()
			return
		}
		owner := metav1.GetControllerOf(k.pod)
		switch {
		case k.is(":crash") && k.starts <= 5:
			if k.crash() != nil {
				return
			}
		case k.is(":fail"), owner != nil && owner.Kind == "Job":
			k.exit()
			return
		default:
			<-k.deletingOrGone()
			return
		}
	}
}

func (k *kubelet) deletingOrGone() <-chan struct{} {
	select {
	case <-k.deleting:
		return k.deleting
	case <-k.ctx.Done():
		return k.ctx.Done()
	default:
	}
	both := make(chan struct{})
	k.lives.Go(func() {
		defer close(both)
		select {
		case <-k.deleting:
		case <-k.ctx.Done():
		}
	})
	return both
}

// start starts the container.
func (k *kubelet) start() error {
	k.event(corev1.EventTypeNormal, "Created", "Container created")
	k.event(corev1.EventTypeNormal, "Started", "Container started")
	if err := k.wait(40 * time.Millisecond); err != nil {
		return err
	}
	k.starts++
	probed := k.pod.Spec.Containers[0].ReadinessProbe != nil
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	k.status(func(s *corev1.PodStatus) {
		s.Phase, s.PodIP = corev1.PodRunning, "10.1.0.7"
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
		set(s, corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")
		k.container(s, running)
		if !probed {
			k.ready(s)
		}
	})
	if !probed || k.is(":never") {
		return nil
	}
	if err := k.wait(400 * time.Millisecond); err != nil {
		return err
	}
	k.status(k.ready)
	return nil
}

// neverReady is a readiness probe that fails until the pod is to be deleted.
func (k *kubelet) neverReady() {
	for k.ctx.Err() == nil {
		k.event(corev1.EventTypeWarning, "Unhealthy",
			"Readiness probe failed: HTTP probe failed with statuscode: 503")
		if k.wait(500*time.Millisecond) != nil {
			return
		}
	}
}

// exit ends a container that is not started again.
func (k *kubelet) exit() {
	if k.wait(300*time.Millisecond) != nil {
		return
	}
	ended := &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.Now(), Reason: "Completed"}
	phase := corev1.PodSucceeded
	if k.is(":fail") {
		ended.Reason, ended.ExitCode, phase = "Error", 1, corev1.PodFailed
	}
	k.status(func(s *corev1.PodStatus) {
		s.Phase = phase
		reason := "PodCompleted"
		if phase == corev1.PodFailed {
			reason = "PodFailed"
		}
		set(s, corev1.PodReady, corev1.ConditionFalse, reason, "")
		set(s, corev1.ContainersReady, corev1.ConditionFalse, reason, "")
		k.container(s, corev1.ContainerState{Terminated: ended})
	})
	<-k.deletingOrGone()
}

// crash is a container that exits, and the wait before it is started again.
func (k *kubelet) crash() error {
	if err := k.wait(120 * time.Millisecond); err != nil {
		return err
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Now(),
		FinishedAt: metav1.Now(), Reason: "Error", ExitCode: 1}}
	k.status(func(s *corev1.PodStatus) {
		k.unready(s)
		k.container(s, ended)
	})
	if k.starts > 1 {
		name := k.pod.Spec.Containers[0].Name
		why := fmt.Sprintf("back-off %ds restarting failed container=%s pod=%s_%s(%s)", 10<<(k.starts-2), name,
			k.pod.Name, k.pod.Namespace, k.pod.UID)
		k.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
			name, k.pod.Name, k.pod.Namespace, k.pod.UID)
		if err := k.wait(100 * time.Millisecond); err != nil {
			return err
		}
		k.status(func(s *corev1.PodStatus) {
			k.container(s,
				corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
					Message: why}})
			s.ContainerStatuses[0].LastTerminationState = ended
		})
		if err := k.wait(200 * time.Millisecond << k.starts); err != nil {
			return err
		}
	}
	k.event(corev1.EventTypeNormal, "Pulled",
		"Container image %q already present on machine and can be accessed by the pod", k.pod.Spec.Containers[0].Image)
	return nil
}

// cannotPull is an image that does not exist.
func (k *kubelet) cannotPull(image string) {
	why := fmt.Sprintf(`failed to pull and unpack image %q: failed to resolve reference %q: %s: not found`,
		"docker.io/library/"+image, "docker.io/library/"+image, "docker.io/library/"+image)
	why = "rpc error: code = NotFound desc = " + why
	for {
		k.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", image, why)
		k.event(corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		k.status(func(s *corev1.PodStatus) {
			k.container(s, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull",
				Message: why}})
		})
		if k.wait(500*time.Millisecond) != nil {
			return
		}
		k.event(corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", image)
		k.event(corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		k.status(func(s *corev1.PodStatus) {
			k.container(s, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", image, why)}})
		})
		if k.wait(time.Second) != nil {
			return
		}
		k.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", image)
	}
}

// stop ends the containers of a pod that is to be deleted, and removes it.
func (k *kubelet) stop() {
	<-k.deletingOrGone()
	if k.ctx.Err() != nil {
		return
	}
	k.event(corev1.EventTypeNormal, "Killing", "Stopping container %s", k.pod.Spec.Containers[0].Name)
	takes := 250 * time.Millisecond
	if k.is(":stuck") {
		takes = 8 * time.Second
	}
	_ = pause(k.ctx, takes)
	k.status(func(s *corev1.PodStatus) {
		k.unready(s)
		if len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Running != nil {
			k.container(s,
				corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
					FinishedAt: metav1.Now()}})
		}
	})
	_ = k.client.CoreV1().Pods(k.pod.Namespace).Delete(k.ctx, k.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &k.pod.UID}})
}

// status writes the status as the kubelet.
func (k *kubelet) status(edit func(*corev1.PodStatus)) { k.write(k.client, edit) }

func (k *kubelet) write(client kubernetes.Interface, edit func(*corev1.PodStatus)) {
	pods := client.CoreV1().Pods(k.pod.Namespace)
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // an error is the end of the pod
		pod, err := pods.Get(k.ctx, k.pod.Name, metav1.GetOptions{})
		if err != nil || pod.UID != k.pod.UID {
			return err
		}
		edit(&pod.Status)
		pod.Status.ObservedGeneration = pod.Generation
		_, err = pods.UpdateStatus(k.ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func (k *kubelet) ready(s *corev1.PodStatus) {
	set(s, corev1.PodReady, corev1.ConditionTrue, "", "")
	set(s, corev1.ContainersReady, corev1.ConditionTrue, "", "")
	s.ContainerStatuses[0].Ready = true
}

func (k *kubelet) unready(s *corev1.PodStatus) {
	why := "containers with unready status: [" + k.pod.Spec.Containers[0].Name + "]"
	set(s, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", why)
	set(s, corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady", why)
}

// container sets the state of the container.
func (k *kubelet) container(s *corev1.PodStatus, state corev1.ContainerState) {
	c := k.pod.Spec.Containers[0]
	was := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	if len(s.ContainerStatuses) > 0 {
		was = s.ContainerStatuses[0]
	}
	is := was
	is.State, is.Started, is.Ready = state, ptr.To(state.Running != nil), false
	if is.RestartCount = max(0, k.starts-1); state.Running != nil && was.State.Terminated != nil {
		is.LastTerminationState = was.State
	}
	if state.Running != nil {
		is.ImageID = "docker.io/library/" + c.Image + "@sha256:6af7"
		is.ContainerID = fmt.Sprintf("containerd://%s%d", k.pod.UID, k.starts)
	}
	s.ContainerStatuses = []corev1.ContainerStatus{is}
}

// set sets a condition.
func set(s *corev1.PodStatus, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type != kind {
			continue
		}
		if c.Status != status {
			c.LastTransitionTime = metav1.Now()
		}
		c.Status, c.Reason, c.Message = status, reason, message
		return
	}
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason,
		Message: message, LastTransitionTime: metav1.Now()})
}
