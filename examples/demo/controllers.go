package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseDuration is how long the second manager waits when the first one stops renewing the lease. It is short to keep
// the demo short.
const leaseDuration = 3 * time.Second

// managers are two processes, one of which leads.
type managers struct {
	out                 *printer
	program, kubeconfig string
	running             []*child
}

// leading is the log message of a manager that becomes the leader.
const leading = `msg=leading`

// start starts another manager.
func (m *managers) start(ctx context.Context, name string) (*child, error) {
	args := []string{"controller-manager", "--leader-elect-namespace", namespace, "--leader-elect-lease-duration", leaseDuration.String()}
	m.out.say("   $ %s %s", filepath.Base(m.program), strings.Join(args, " "))
	c, err := startChild(m.out, name, withoutTime, m.program, append(args, "--bind-address", "127.0.0.1:0", "--kubeconfig", m.kubeconfig)...)
	if err != nil {
		return nil, err
	}
	m.running = append(m.running, c)
	return c, c.await(ctx, 1, `msg=started`)
}

var logPrefix = regexp.MustCompile(`^time=\S+ level=INFO `)

func withoutTime(lines []string) []string {
	var short []string
	for _, line := range lines {
		short = append(short, logPrefix.ReplaceAllString(line, ""))
	}
	return short
}

// kill kills the managers that are still running.
func (m *managers) kill() {
	for _, c := range m.running {
		c.kill()
	}
}

// stop stops the last manager, the leader, gracefully.
func (m *managers) stop(ctx context.Context) error {
	return m.running[len(m.running)-1].stop(ctx)
}

func showControllers(ctx context.Context, out *printer, c *cluster, tail *child, m *managers) error {
	out.step("Run the ReplicaSet and ReplicationController controllers, in two processes, one of which leads")
	first, err := m.start(ctx, "A")
	if err != nil {
		return err
	}
	if err := first.await(ctx, 1, leading); err != nil {
		return err
	}
	second, err := m.start(ctx, "B")
	if err != nil {
		return err
	}
	if err := showReplicas(ctx, out, c, tail); err != nil {
		return err
	}
	return showTakeover(ctx, out, c, tail, first, second)
}

// showReplicas has the leader maintain the number of pods.
func showReplicas(ctx context.Context, out *printer, c *cluster, tail *child) error {
	out.say("   - create a ReplicaSet of two pods: A creates them, and updates its status")
	if err := c.createReplicaSet(ctx, replicaSetName, 2); err != nil {
		return err
	}
	if err := awaitReplicas(ctx, tail, "web", 2, "0 → 2"); err != nil {
		return err
	}
	out.say("   - scale it to four")
	if err := c.scale(ctx, "web", 4); err != nil {
		return err
	}
	if err := awaitReplicas(ctx, tail, "web", 4, "→ 4"); err != nil {
		return err
	}
	out.say("   - delete one of its pods: A replaces it")
	if err := c.deleteOnePod(ctx, "web"); err != nil {
		return err
	}
	if err := tail.await(ctx, 5, `ADDED +pods demo/web-`); err != nil {
		return err
	}
	out.say("   - create a ReplicationController of three pods")
	if err := c.createReplicationController(ctx, "old", 3); err != nil {
		return err
	}
	return awaitReplicas(ctx, tail, "old", 3, "0 → 3")
}

// awaitReplicas waits until tail has shown that this many pods were created, and a change of the
// number of replicas in a status.
func awaitReplicas(ctx context.Context, tail *child, owner string, made int, change string) error {
	if err := tail.await(ctx, made, `ADDED +pods demo/`+owner+`-`); err != nil {
		return err
	}
	return tail.await(ctx, 1, `status\.replicas: .*`+change)
}

// showTakeover kills the leader while there is work to do.
func showTakeover(ctx context.Context, out *printer, c *cluster, tail, first, second *child) error {
	out.step("Kill the leader")
	out.say("   - kill -9 %d (A), and scale to seven while nobody leads", first.cmd.Process.Pid)
	first.kill()
	killed := time.Now()
	if err := c.scale(ctx, "web", 7); err != nil {
		return err
	}
	if err := second.await(ctx, 1, leading); err != nil {
		return err
	}
	out.say("   - B leads %v after the kill, because A's lease of %v was not renewed", roundDuration(time.Since(killed)), leaseDuration)
	if err := awaitReplicas(ctx, tail, "web", 8, "→ 7"); err != nil {
		return err
	}
	return c.checkPods(ctx, "web", 7)
}

func (c *cluster) createReplicaSet(ctx context.Context, name string, replicas int32) error {
	pod := meta(name)
	_, err := c.client.AppsV1().ReplicaSets(namespace).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: meta(name),
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: podSpec()},
		},
	}, metav1.CreateOptions{})
	return err
}

func (c *cluster) createReplicationController(ctx context.Context, name string, replicas int32) error {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta(name).Labels}, Spec: podSpec()}
	_, err := c.client.CoreV1().ReplicationControllers(namespace).Create(ctx, &corev1.ReplicationController{
		ObjectMeta: meta(name), Spec: corev1.ReplicationControllerSpec{Replicas: &replicas, Template: template},
	}, metav1.CreateOptions{})
	return err
}

func (c *cluster) podsOf(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c *cluster) deleteOnePod(ctx context.Context, app string) error {
	pods, err := c.podsOf(ctx, app)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("there is no pod of %s to delete", app)
	}
	return c.client.CoreV1().Pods(namespace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{})
}

// checkPods counts the pods on the server.
func (c *cluster) checkPods(ctx context.Context, app string, want int) error {
	pods, err := c.podsOf(ctx, app)
	if err == nil && len(pods) != want {
		err = fmt.Errorf("there are %d pods of %s, want %d", len(pods), app, want)
	}
	return err
}
