package wiretest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type kind int

const (
	replicaSet kind = iota
	daemonSet
	statefulSet
	job
)

var kindNames = [...]string{replicaSet: "ReplicaSet", daemonSet: "DaemonSet", statefulSet: "StatefulSet", job: "Job"}

// workload is an owner of pods with its pod template.
type workload struct {
	kind      kind
	namespace string
	name      string
	hash      string
	replicas  int
	owner     metav1.OwnerReference
	labels    map[string]string
	notes     map[string]string
	spec      corev1.PodSpec
}

// maxDaemons is the number of DaemonSets: a node runs some 60 pods, one in six of them from a DaemonSet.
const maxDaemons = 10

// workload generates the next owner: three of five are ReplicaSets.
func (c *cluster) workload() *workload {
	c.workloads++
	w := &workload{
		kind:      []kind{replicaSet, replicaSet, replicaSet, statefulSet, replicaSet, daemonSet, replicaSet, job}[c.workloads%8],
		namespace: pick(c.rng, c.namespaces),
		hash:      c.suffix(10),
		replicas:  10 + c.rng.IntN(41),
	}
	if w.kind == daemonSet {
		if c.daemons++; c.daemons > maxDaemons {
			w.kind = replicaSet
		}
	}
	app := fmt.Sprintf("%s-%d", pick(c.rng, apps), c.workloads)
	w.name = app
	switch w.kind {
	case replicaSet:
		w.name = app + "-" + w.hash
	case daemonSet:
		w.replicas = len(c.nodes)
	case statefulSet:
		w.replicas = 3 + c.rng.IntN(8)
	case job:
		w.replicas = 1 + c.rng.IntN(12)
	}
	if c.maxReplicas > 0 {
		w.replicas = 1 + c.rng.IntN(c.maxReplicas)
	}
	w.labels = map[string]string{
		"app":       app,
		"component": pick(c.rng, apps),
	}
	if c.rng.IntN(3) == 0 {
		w.notes = map[string]string{
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   fmt.Sprint(8000 + c.rng.IntN(2000)),
			"checksum/config":      c.hex(64),
		}
	}
	w.owner = metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: kindNames[w.kind], Name: w.name, UID: types.UID(c.uid()),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
	if w.kind == job {
		w.owner.APIVersion = "batch/v1"
	}
	w.spec = c.podSpec(w, app)
	return w
}

func (w *workload) generateName() string { return w.name + "-" }

func (w *workload) podName(c *cluster, i int) string {
	if w.kind == statefulSet {
		return fmt.Sprintf("%s-%d", w.name, i)
	}
	return w.generateName() + c.suffix(5)
}

// podLabels adds the labels that the controller of w adds to the template's.
func (w *workload) podLabels(i int) map[string]string {
	labels := maps.Clone(w.labels)
	switch w.kind {
	case replicaSet:
		labels["pod-template-hash"] = w.hash
	case daemonSet:
		labels["controller-revision-hash"] = w.hash
		labels["pod-template-generation"] = "1"
	case statefulSet:
		labels["controller-revision-hash"] = w.name + "-" + w.hash
		labels["statefulset.kubernetes.io/pod-name"] = fmt.Sprintf("%s-%d", w.name, i)
		labels["apps.kubernetes.io/pod-index"] = fmt.Sprint(i)
	case job:
		labels["batch.kubernetes.io/controller-uid"] = string(w.owner.UID)
		labels["batch.kubernetes.io/job-name"] = w.name
	}
	return labels
}

func (c *cluster) podSpec(w *workload, app string) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: new(int64(30)),
		DNSPolicy:                     corev1.DNSClusterFirst,
		ServiceAccountName:            app,
		DeprecatedServiceAccount:      app,
		SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(1000 + c.rng.IntN(10)))},
		SchedulerName:                 corev1.DefaultSchedulerName,
		Tolerations:                   defaultTolerations(),
		Priority:                      new(int32(0)),
		EnableServiceLinks:            new(true),
		PreemptionPolicy:              new(corev1.PreemptLowerPriority),
	}
	if w.kind == job {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if c.rng.IntN(2) == 0 {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}, DefaultMode: new(int32(420))},
		}})
	}
	// Of ten workloads, seven have one container, two have two and one has four; one in six has an init container.
	for i := range []int{1, 1, 1, 1, 1, 1, 1, 2, 2, 4}[c.rng.IntN(10)] {
		spec.Containers = append(spec.Containers, c.container(app, i, len(spec.Volumes) > 0))
	}
	if c.rng.IntN(6) == 0 {
		init := c.container(app, 9, false)
		init.ReadinessProbe, init.LivenessProbe, init.Ports = nil, nil, nil
		spec.InitContainers = append(spec.InitContainers, init)
	}
	return spec
}

func (c *cluster) container(app string, i int, config bool) corev1.Container {
	port := int32(8000 + c.rng.IntN(2000))
	container := corev1.Container{
		Name:                     strings.TrimSuffix(fmt.Sprintf("%s-%d", app, i), "-0"),
		Image:                    pick(c.rng, c.images).ref,
		Args:                     []string{"--listen=:" + fmt.Sprint(port), "--log-format=json"},
		Ports:                    []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Env:                      c.env(app),
		Resources:                c.resources(),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy:          corev1.PullIfNotPresent,
	}
	if i == 0 && c.rng.IntN(2) == 0 {
		container.ReadinessProbe = probe("/readyz", port, 5)
	}
	if i == 0 && c.rng.IntN(3) == 0 {
		container.LivenessProbe = probe("/healthz", port, 10)
	}
	if i == 0 && c.rng.IntN(2) == 0 {
		container.SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	if config {
		container.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + app}}
	}
	return container
}

func (c *cluster) env(app string) []corev1.EnvVar {
	var env []corev1.EnvVar
	if c.rng.IntN(3) == 0 {
		env = append(env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}})
	}
	for range c.rng.IntN(3) {
		env = append(env, corev1.EnvVar{Name: strings.ToUpper(pick(c.rng, apps)) + "_URL", Value: "http://" + pick(c.rng, apps) + "." + pick(c.rng, c.namespaces) + ":8080"})
	}
	if c.rng.IntN(4) == 0 {
		env = append(env, corev1.EnvVar{Name: "DB_PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: app + "-db"}, Key: "password"}}})
	}
	slices.SortFunc(env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(env, func(a, b corev1.EnvVar) bool { return a.Name == b.Name })
}

func (c *cluster) resources() corev1.ResourceRequirements {
	cpu, memory := 50*(1+c.rng.IntN(20)), 64*(1+c.rng.IntN(32))
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(fmt.Sprintf("%dm", cpu)),
			corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", memory)),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 2*memory))},
	}
}

func probe(path string, port int32, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: period, SuccessThreshold: 1, FailureThreshold: 3,
	}
}
