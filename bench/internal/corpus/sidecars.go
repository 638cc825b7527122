package corpus

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// injectSidecars adds to pods what a service mesh and a network plugin do: a proxy with variables that name the pod,
// an init container, their statuses, and annotations with addresses.
func injectSidecars(rng *rand.Rand, pods []Object) {
	for _, obj := range pods {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		ip, container := pod.Status.PodIP, text(rng, 64, "0123456789abcdef")
		mac := fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", rng.IntN(256), rng.IntN(256), rng.IntN(256), rng.IntN(256))
		pod.Annotations["k8s.v1.cni.cncf.io/network-status"] = fmt.Sprintf(
			"[{\n    \"name\": \"cbr0\",\n    \"interface\": \"eth0\",\n    \"ips\": [\n        %q\n    ],\n    \"mac\": %q,\n    \"default\": true,\n    \"dns\": {}\n}]", ip, mac)
		pod.Annotations["cni.projectcalico.org/containerID"] = container
		pod.Annotations["cni.projectcalico.org/podIP"] = ip + "/32"
		pod.Annotations["cni.projectcalico.org/podIPs"] = ip + "/32"
		pod.Annotations["sidecar.istio.io/status"] = `{"initContainers":["istio-init"],"containers":["istio-proxy"],"volumes":["workload-socket",` +
			`"credential-socket","workload-certs","istio-envoy","istio-data","istio-podinfo","istio-token","istiod-ca-cert"],"imagePullSecrets":null,"revision":"default"}`
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, proxy("istio-init", pod))
		pod.Spec.Containers = append(pod.Spec.Containers, proxy("istio-proxy", pod))
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: "istio-proxy", Ready: true, Started: new(true), Image: proxyImage, ImageID: proxyImage + "@sha256:5a1b", ContainerID: "containerd://" + text(rng, 64, "0123456789abcdef"),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *pod.Status.StartTime}},
		})
	}
}

const proxyImage = "docker.io/istio/proxyv2:1.29.1"

func proxy(name string, pod *corev1.Pod) corev1.Container {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	owner := pod.OwnerReferences[0]
	return corev1.Container{
		Name: name, Image: proxyImage, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local", "--proxyLogLevel=warning", "--proxyComponentLogLevel=misc:error", "--log_output_level=default:info"},
		Env: []corev1.EnvVar{
			{Name: "PILOT_CERT_PROVIDER", Value: "istiod"}, {Name: "CA_ADDR", Value: "istiod.istio-system.svc:15012"},
			{Name: "POD_NAME", ValueFrom: field("metadata.name")}, {Name: "POD_NAMESPACE", ValueFrom: field("metadata.namespace")},
			{Name: "INSTANCE_IP", ValueFrom: field("status.podIP")}, {Name: "SERVICE_ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
			{Name: "ISTIO_META_CLUSTER_ID", Value: "Kubernetes"}, {Name: "ISTIO_META_NODE_NAME", ValueFrom: field("spec.nodeName")},
			{Name: "ISTIO_META_APP_CONTAINERS", Value: pod.Spec.Containers[0].Name}, {Name: "ISTIO_META_WORKLOAD_NAME", Value: owner.Name},
			{Name: "ISTIO_META_OWNER", Value: fmt.Sprintf("kubernetes://apis/%s/namespaces/%s/%s/%s", owner.APIVersion, pod.Namespace, owner.Kind, owner.Name)},
			{Name: "ISTIO_META_MESH_ID", Value: "cluster.local"}, {Name: "TRUST_DOMAIN", Value: "cluster.local"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "workload-socket", MountPath: "/var/run/secrets/workload-spiffe-uds"}, {Name: "istiod-ca-cert", MountPath: "/var/run/secrets/istio"},
			{Name: "istio-data", MountPath: "/var/lib/istio/data"}, {Name: "istio-envoy", MountPath: "/etc/istio/proxy"},
			{Name: "istio-token", MountPath: "/var/run/secrets/tokens"}, {Name: "istio-podinfo", MountPath: "/etc/istio/pod"},
		},
	}
}
