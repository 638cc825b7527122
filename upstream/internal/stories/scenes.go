package stories

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// scene is something that happens.
type scene struct {
	name   string
	kinds  []kind             // that are recorded, besides the usual ones
	before func(*world) error // before the recording; may be nil
	play   func(*world) error
}

// scenes are all of them.
var scenes = []scene{
	{
		name:   "rollout",
		before: web3,
		play:   rollout,
	},
	{name: "crash", play: func(w *world) error {
		if err := w.deploy("web", 1, "nginx:crash"); err != nil {
			return err
		}
		return w.untilRestarts(3)
	}},
	{name: "image", before: web3, play: func(w *world) error {
		if err := w.setImage("web", "nginx:missing"); err != nil {
			return err
		}
		if err := pause(w.ctx, 3*time.Second); err != nil {
			return err
		}
		if err := w.setImage("web", "nginx:1.27"); err != nil { // kubectl rollout undo
			return err
		}
		return w.rolledOut("web")
	}},
	{name: "probe", before: web3, play: func(w *world) error {
		if err := w.setImage("web", "nginx:never"); err != nil {
			return err
		}
		return pause(w.ctx, 14*time.Second)
	}},
	{name: "job", play: func(w *world) error {
		if err := w.job("report", "report:fail", 1); err != nil {
			return err
		}
		return w.untilJob("report", batchv1.JobFailed)
	}},
	{name: "eviction", before: web3, play: func(w *world) error {
		pods, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		name := pods.Items[0].Name
		if err := w.client.PolicyV1().Evictions(w.namespace).Evict(w.ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}); err != nil {
			return err
		}
		if err := pause(w.ctx, time.Second); err != nil {
			return err
		}
		return w.rolledOut("web")
	}},
	{name: "finalizer", kinds: []kind{of("", "v1", "configmaps", "ConfigMap")}, before: func(w *world) error {
		return w.create("archiver", core("configmaps"),
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":["example.com/archive"]}}`)
	}, play: func(w *world) error {
		maps := w.client.CoreV1().ConfigMaps(w.namespace)
		if err := maps.Delete(w.ctx, "held", metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := pause(w.ctx, 7*time.Second); err != nil {
			return err
		}
		return w.patch("archiver", core("configmaps"), "held", `{"metadata":{"finalizers":null}}`)
	}},
	{name: "fight", before: web3, play: func(w *world) error {
		for n := range 12 {
			manager, replicas := "gitops", 3
			if n%2 == 0 {
				manager, replicas = "autoscaler", 4
			}
			if err := w.patch(manager, gvr("apps", "deployments"), "web",
				fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)); err != nil {
				return err
			}
			if err := pause(w.ctx, 400*time.Millisecond); err != nil {
				return err
			}
		}
		return w.rolledOut("web")
	}},
	{name: "deletion", before: web3, play: func(w *world) error {
		background := metav1.DeletePropagationBackground
		if err := w.client.AppsV1().Deployments(w.namespace).Delete(w.ctx, "web",
			metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			return err
		}
		return w.until("no pods", func() (bool, error) {
			pods, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
			return err == nil && len(pods.Items) == 0, err
		})
	}},
	{name: "many", before: web3, play: func(w *world) error {
		if err := w.patch("kubectl-scale", gvr("apps", "deployments"), "web", `{"spec":{"replicas":53}}`); err != nil {
			return err
		}
		return w.rolledOut("web")
	}},
	{name: "statefulset", before: db3, play: func(w *world) error {
		if err := w.patch("kubectl-set", gvr("apps", "statefulsets"), "db",
			`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"postgres:17"}]}}}}`); err != nil {
			return err
		}
		return w.untilUpdated("db")
	}},
	{name: "drain", kinds: []kind{allNodes, of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")},
		before: guardedWeb, play: drain},
	{name: "namespace", kinds: []kind{
		of("", "v1", "configmaps", "ConfigMap"), {core("namespaces"), "Namespace", true},
	}, before: inhabited, play: vacate},
	{name: "operator", kinds: []kind{of("example.com", "v1", "backups", "Backup")}, before: defineBackups, play: operate},
	{name: "autoscaler", kinds: []kind{of("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")},
		before: web3, play: func(w *world) error {
			w.load.queue.Store(20)
			if err := w.autoscale("web"); err != nil {
				return err
			}
			return flap(w)
		}},
	{name: "chatter", before: web3, play: func(w *world) error {
		return w.beside(50*time.Millisecond, w.chatter, rollout)
	}},
	{name: "leases", before: leaders, play: func(w *world) error {
		return w.beside(100*time.Millisecond, w.renew, rollout)
	}},
}

// allNodes are the nodes, which all scenes share.
var allNodes = kind{core("nodes"), "Node", true}

// db3 is a StatefulSet of three replicas with a readiness probe.
func db3(w *world) error {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template("db", "postgres:16")}}
	probed(d)
	if _, err := w.client.AppsV1().StatefulSets(w.namespace).Create(w.ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: labels("db")}, Template: d.Spec.Template, ServiceName: "db"},
	}, metav1.CreateOptions{FieldManager: "kubectl-create"}); err != nil {
		return err
	}
	return w.untilUpdated("db")
}

// untilUpdated waits for the end of a StatefulSet's rollout.
func (w *world) untilUpdated(name string) error {
	return w.until("rollout of "+name, func() (bool, error) {
		s, err := w.client.AppsV1().StatefulSets(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return s.Status.ObservedGeneration == s.Generation && s.Status.AvailableReplicas == 3 &&
			s.Status.CurrentRevision == s.Status.UpdateRevision, nil
	})
}

// web3 is a Deployment of three replicas with a readiness probe.
func web3(w *world) error {
	if err := w.deploy("web", 3, "nginx:1.27", probed); err != nil {
		return err
	}
	return w.rolledOut("web")
}

// named returns the scenes of these names; all if there are none.
func named(names []string) (found []scene, err error) {
	if len(names) == 0 {
		return scenes, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scene %q", name)
		}
		found = append(found, scenes[i])
	}
	return found, nil
}

func core(resource string) schema.GroupVersionResource { return gvr("", resource) }

// job creates a Job whose pods are not started again by the kubelet.
func (w *world) job(name, image string, retries int32, edit ...func(*batchv1.Job) error) error {
	pods := template(name, image)
	pods.Spec.RestartPolicy = "Never"
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: pods, BackoffLimit: &retries},
	}
	manager := "kubectl-create"
	for _, e := range edit {
		if err := e(j); err != nil {
			return err
		}
		manager = "backup-operator"
	}
	_, err := w.client.BatchV1().Jobs(w.namespace).Create(w.ctx, j, metav1.CreateOptions{FieldManager: manager})
	return err
}

// untilJob waits until a Job has a condition.
func (w *world) untilJob(name string, kind batchv1.JobConditionType) error {
	return w.until("the end of "+name, func() (bool, error) {
		j, err := w.client.BatchV1().Jobs(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(j.Status.Conditions,
			func(c batchv1.JobCondition) bool { return c.Type == kind }), nil
	})
}

// untilRestarts waits until a container has been started again so often.
func (w *world) untilRestarts(n int32) error {
	return w.until("restarts", func() (bool, error) {
		pods, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 || len(pods.Items[0].Status.ContainerStatuses) == 0 {
			return false, err
		}
		return pods.Items[0].Status.ContainerStatuses[0].RestartCount >= n, nil
	})
}
