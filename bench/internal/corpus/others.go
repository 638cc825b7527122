package corpus

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// start is roughly when the objects were written.
var start = time.Unix(1_760_000_000, 0)

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// generator generates objects other than pods.
type generator struct {
	rng     *rand.Rand
	version uint64
}

func newOfKind(kind string) Object {
	switch kind {
	case "ConfigMap":
		return &corev1.ConfigMap{}
	case "Event":
		return &corev1.Event{}
	case "Lease":
		return &coordinationv1.Lease{}
	case "Node":
		return &corev1.Node{}
	case "PartialObjectMetadata":
		return &metav1.PartialObjectMetadata{}
	case "Instance":
		return &Instance{}
	default:
		return &corev1.Pod{}
	}
}

func (g *generator) make(name Name, i int) Object {
	switch name {
	case ConfigMaps:
		return g.configMap(i)
	case Events:
		return g.event(i)
	case Leases:
		return g.lease(i)
	default:
		return g.node(i)
	}
}

func text(rng *rand.Rand, n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

func (g *generator) hex(n int) string { return text(g.rng, n, "0123456789abcdef") }

func (g *generator) uid() types.UID {
	return types.UID(g.hex(8) + "-" + g.hex(4) + "-4" + g.hex(3) + "-a" + g.hex(3) + "-" + g.hex(12))
}

// meta returns the metadata of an object that manager has written once.
func (g *generator) meta(namespace, name, manager, fields string) metav1.ObjectMeta {
	g.version += uint64(1 + g.rng.IntN(900))
	at := metav1.NewTime(start.Add(-time.Duration(g.rng.IntN(40*24*3600)) * time.Second))
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: g.uid(), ResourceVersion: fmt.Sprint(71_000_000 + g.version), CreationTimestamp: at,
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}},
	}
}

// configMap returns a config map with 2 kB of random data in four keys.
func (g *generator) configMap(i int) *corev1.ConfigMap {
	out := &corev1.ConfigMap{
		ObjectMeta: g.meta(fmt.Sprint("team-", i%40), fmt.Sprint("settings-", i), "kubectl-create",
			`{"f:data":{".":{},"f:a":{},"f:b":{},"f:c":{},"f:d":{}}}`),
		Data: map[string]string{},
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		out.Data[key] = text(g.rng, 512, alphanumeric)
	}
	return out
}

var reasons = []struct{ reason, message, component string }{
	{"Scheduled", "Successfully assigned NAMESPACE/POD to HOST", "default-scheduler"},
	{"Pulled", "Container image \"registry.example.com/NAMESPACE/app:v1.NUMBER\" already present on machine", "kubelet"},
	{"Created", "Created container: app", "kubelet"},
	{"Started", "Started container app", "kubelet"},
	{"Unhealthy", "Readiness probe failed: Get \"http://10.64.NUMBER.7:8080/readyz\": context deadline exceeded", "kubelet"},
	{"BackOff", "Back-off restarting failed container app in pod POD_NAMESPACE", "kubelet"},
	{"Killing", "Stopping container app", "kubelet"},
}

// event returns an event about a pod; about four share a pod.
func (g *generator) event(i int) *corev1.Event {
	const fields = `{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},` +
		`"f:reportingComponent":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}`
	about := rand.New(rand.NewPCG(uint64(i/4), 9))
	namespace, host := fmt.Sprint("team-", about.IntN(40)), fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", about.IntN(4), about.IntN(250))
	pod := fmt.Sprintf("app-%d-%s-%s", about.IntN(500), text(about, 10, "bcdfghjklmnpqrstvwxz2456789"), text(about, 5, "bcdfghjklmnpqrstvwxz2456789"))
	r := reasons[g.rng.IntN(len(reasons))]
	message := strings.NewReplacer("NAMESPACE", namespace, "POD", pod, "HOST", host, "NUMBER", fmt.Sprint(about.IntN(200))).Replace(r.message)
	out := &corev1.Event{
		ObjectMeta: g.meta(namespace, pod+"."+g.hex(16), r.component, fields),
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", Namespace: namespace, Name: pod, APIVersion: "v1", FieldPath: "spec.containers{app}", ResourceVersion: fmt.Sprint(70_000_000 + about.IntN(1e6)),
			UID: types.UID(text(about, 36, "0123456789abcdef")),
		},
		Reason: r.reason, Message: message,
		Source: corev1.EventSource{Component: r.component, Host: host}, ReportingController: r.component, ReportingInstance: host,
		Type: corev1.EventTypeNormal, Count: int32(1 + g.rng.IntN(5)),
	}
	out.FirstTimestamp, out.LastTimestamp = out.CreationTimestamp, out.CreationTimestamp
	return out
}

func (g *generator) lease(i int) *coordinationv1.Lease {
	name := fmt.Sprintf("ip-10-%d-%d-%d.eu-west-1.compute.internal", i>>16, i>>8&255, i&255)
	out := &coordinationv1.Lease{
		ObjectMeta: g.meta("kube-node-lease", name, "kubelet", `{"f:metadata":{"f:ownerReferences":{".":{}}},"f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}`),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)),
			RenewTime: new(metav1.NewMicroTime(start.Add(time.Duration(g.rng.IntN(10_000_000)) * time.Microsecond))),
		},
	}
	out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: g.uid()}}
	return out
}

// nodeImages is the number of images on a node, out of the clusterImages in the cluster.
const nodeImages, clusterImages = 25, 300

func (g *generator) node(i int) *corev1.Node {
	name := fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i/250, i%250)
	ip := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
	zone := fmt.Sprintf("eu-west-1%c", 'a'+rune(i%3))
	size := []string{"m6i.2xlarge", "m6i.4xlarge", "r6i.2xlarge"}[g.rng.IntN(3)]
	out := &corev1.Node{
		ObjectMeta: g.meta("", name, "kubelet", `{"f:metadata":{"f:annotations":{},"f:labels":{}},"f:status":{"f:conditions":{},"f:images":{}}}`),
		Spec:       corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255), ProviderID: fmt.Sprintf("aws:///%s/i-%s", zone, g.hex(17))},
	}
	out.Labels = map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": size,
		"topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": zone, "topology.k8s.aws/zone-id": "euw1-az" + fmt.Sprint(1+i%3),
		"karpenter.sh/nodepool": fmt.Sprint("pool-", g.rng.IntN(6)), "karpenter.sh/capacity-type": "spot",
	}
	out.Annotations = map[string]string{
		"alpha.kubernetes.io/provided-node-ip": ip, "node.alpha.kubernetes.io/ttl": "0",
		"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"ebs.csi.aws.com":"i-%s"}`, g.hex(17)),
	}
	out.Status = corev1.NodeStatus{
		Capacity: g.resources(), Allocatable: g.resources(),
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: g.hex(32), SystemUUID: string(g.uid()), BootID: string(g.uid()), KernelVersion: "6.12.40-63.114.amzn2023.x86_64",
			OSImage: "Amazon Linux 2023", ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
		},
	}
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: "Kubelet" + string(t), Message: "kubelet says so of " + string(t),
			LastHeartbeatTime: metav1.NewTime(start.Add(time.Duration(g.rng.IntN(300)) * time.Second)), LastTransitionTime: out.CreationTimestamp,
		})
	}
	for range nodeImages {
		out.Status.Images = append(out.Status.Images, nodeImage(g.rng.IntN(clusterImages)))
	}
	return out
}

func nodeImage(i int) corev1.ContainerImage {
	rng := rand.New(rand.NewPCG(uint64(i), 11))
	repository := fmt.Sprintf("registry.example.com/team-%d/app-%d", i%12, i)
	return corev1.ContainerImage{
		Names:     []string{repository + "@sha256:" + text(rng, 64, "0123456789abcdef"), fmt.Sprintf("%s:v1.%d", repository, i)},
		SizeBytes: int64(20_000_000 + rng.IntN(400_000_000)),
	}
}

func (g *generator) resources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dKi", 32_000_000+g.rng.IntN(100_000))),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("104779756Ki"),
	}
}
