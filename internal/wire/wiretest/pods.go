// Package wiretest generates objects that look like those of a real cluster, for tests and benchmarks.
package wiretest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods returns n pods of one made-up cluster. The same n and seed give the same pods.
//
// Values repeat as they do in a cluster: the pods of a workload come from one template, and
// kubelets and controllers write their fields in the same way each time. Values that are unique
// there are unique here: names, uids, resource versions, addresses, container ids, times, the name
// of the service account token's volume and its mounts, and the pod's address in the fields that
// the kubelet manages. Fields that only some clusters write, such as the resources in a container's
// status, are left out. The pods are in list order: by namespace, then by name. One pod is about
// 4.2 kB in protobuf.
func Pods(n int, seed uint64) []*corev1.Pod { return newCluster(n, seed).pods(n) }

// PodsOfSmallOwners is like Pods, but no owner has more than the given number of replicas.
func PodsOfSmallOwners(n, replicas int, seed uint64) []*corev1.Pod {
	c := newCluster(n, seed)
	c.maxReplicas = replicas
	return c.pods(n)
}

func (c *cluster) pods(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, n)
	for len(pods) < n {
		w := c.workload()
		for i := range min(w.replicas, n-len(pods)) {
			pods = append(pods, c.pod(w, i))
		}
	}
	sortPods(pods)
	return pods
}

// cluster is the state that all pods of one cluster are generated from.
type cluster struct {
	rng        *rand.Rand
	namespaces []string
	nodes      []node
	images     []image
	now        time.Time
	version    uint64
	workloads  int
	daemons    int
	ip         uint32
	// maxReplicas bounds the replicas of an owner; 0 keeps the numbers of a large cluster.
	maxReplicas int
}

type node struct{ name, ip string }

// image is run by several workloads: the reference that containers ask for, and the id that the kubelet reports.
type image struct{ ref, id string }

func newCluster(pods int, seed uint64) *cluster {
	c := &cluster{
		rng:     rand.New(rand.NewPCG(seed, 0x7469_6469_6e67)),
		now:     time.Unix(1_760_000_000, 0),
		version: 71_000_000,
	}
	for i := range 5 + pods/500 {
		c.namespaces = append(c.namespaces, fmt.Sprintf("%s-%d", pick(c.rng, teams), i))
	}
	for i := range 3 + pods/60 {
		ip := fmt.Sprintf("10.%d.%d.%d", 0, i/250, 1+i%250)
		c.nodes = append(c.nodes, node{fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i/250, 1+i%250), ip})
	}
	for i := range 10 + pods/50 {
		repo := fmt.Sprintf("registry.example.com/%s/%s-%d", pick(c.rng, teams), pick(c.rng, apps), i)
		c.images = append(c.images, image{
			ref: fmt.Sprintf("%s:v%d.%d.%d", repo, c.rng.IntN(5), c.rng.IntN(30), c.rng.IntN(10)),
			id:  repo + "@sha256:" + c.hex(64),
		})
	}
	return c
}

// pod makes the i-th pod of w.
func (c *cluster) pod(w *workload, i int) *corev1.Pod {
	started := c.now.Add(-time.Duration(c.rng.IntN(40*24*3600)) * time.Second)
	c.version += uint64(1 + c.rng.IntN(900))
	on := c.nodes[c.rng.IntN(len(c.nodes))]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              w.podName(c, i),
			GenerateName:      w.generateName(),
			Namespace:         w.namespace,
			UID:               types.UID(c.uid()),
			ResourceVersion:   fmt.Sprint(c.version),
			Generation:        1,
			CreationTimestamp: metav1.NewTime(started),
			Labels:            w.podLabels(i),
			Annotations:       maps.Clone(w.notes),
			OwnerReferences:   []metav1.OwnerReference{w.owner},
		},
		Spec: *w.spec.DeepCopy(),
	}
	pod.Spec.NodeName = on.name
	if w.kind == statefulSet {
		pod.Spec.Hostname = pod.Name
	}
	if w.kind == daemonSet {
		pod.Spec.Affinity = nodeAffinity(on.name)
	}
	c.mountToken(&pod.Spec)
	c.setStatus(pod, w, on, started)
	pod.ManagedFields = managedFields(pod, w, started)
	return pod
}

// mountToken adds what the admission plugin for service accounts adds: a volume with a random name.
func (c *cluster) mountToken(spec *corev1.PodSpec) {
	name := "kube-api-access-" + c.suffix(5)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenVolume()}})
	mount := corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	for i := range spec.InitContainers {
		spec.InitContainers[i].VolumeMounts = append(spec.InitContainers[i].VolumeMounts, mount)
	}
	for i := range spec.Containers {
		spec.Containers[i].VolumeMounts = append(spec.Containers[i].VolumeMounts, mount)
	}
}

// suffix returns n random characters of the alphabet that Kubernetes uses for generated names.
func (c *cluster) suffix(n int) string {
	return c.random(n, "bcdfghjklmnpqrstvwxz2456789")
}

func (c *cluster) hex(n int) string { return c.random(n, "0123456789abcdef") }

func (c *cluster) random(n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[c.rng.IntN(len(alphabet))]
	}
	return string(b)
}

func (c *cluster) uid() string {
	return c.hex(8) + "-" + c.hex(4) + "-4" + c.hex(3) + "-a" + c.hex(3) + "-" + c.hex(12)
}

func pick[E any](rng *rand.Rand, from []E) E { return from[rng.IntN(len(from))] }

var (
	teams = []string{"shop", "billing", "search", "media", "platform", "identity", "reports", "ledger"}
	apps  = []string{"api", "web", "worker", "gateway", "cache", "indexer", "scheduler", "mailer", "proxy", "exporter", "sync", "auth"}
)
