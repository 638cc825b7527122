package story

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// kind is what is known of the objects of a kind. What is not known of one is told by its phase, its conditions, and
// the fields that somebody set.
type kind struct {
	short string
	// born says what a new object is.
	born func(object) string
	// grows says that a new object has an open line, which facts continue and end.
	grows bool
	// changed returns what a change means; before is nil for a new object.
	changed func(l *life, now time.Time, before, after object) []fact
	// claims are the fields that changed tells of, or that only repeat what other objects do.
	claims []string
	// hands are managers that need no name, because they always write objects of this kind.
	hands []string
	// leftOut reports that the story has no room for a change.
	leftOut func(news.Event) bool
}

// kinds is what is known, by kind and group.
var kinds = map[string]kind{
	"Pod": {
		short: "pod", grows: true, changed: podFacts,
		claims: []string{"status", "spec.nodeName", "metadata.finalizers", "metadata.ownerReferences",
			"metadata.annotations"},
		hands: []string{"kube-controller-manager", "kubelet", "kube-scheduler"},
	},
	"Deployment.apps": {
		short: "deploy", born: replicasAndImages, changed: workloadFacts,
		claims: []string{"status", "metadata.annotations[deployment.kubernetes.io/revision]"},
	},
	"StatefulSet.apps": {short: "sts", born: replicasAndImages, changed: workloadFacts, claims: []string{"status"}},
	"DaemonSet.apps": {
		short: "ds", born: replicasAndImages, changed: workloadFacts,
		claims: []string{"status", "metadata.annotations[deprecated.daemonset.template.generation]"},
	},
	"ReplicaSet.apps": {
		short: "rs", born: revision, changed: setFacts,
		claims: []string{"status", "spec.replicas",
			"metadata.annotations"}, hands: []string{"kube-controller-manager"},
	},
	"ReplicationController": {short: "rc", born: replicasAndImages, changed: setFacts,
		claims: []string{"status", "spec.replicas"}},
	"Job.batch": {
		short: "job", born: jobSize, changed: jobFacts,
		claims: []string{"status", "metadata.finalizers", "metadata.labels",
			"metadata.annotations"}, hands: []string{"cronjob-controller"},
	},
	"CronJob.batch": {short: "cronjob", born: func(o object) string { return text(o, "spec", "schedule") },
		claims: []string{"status"}},
	"HorizontalPodAutoscaler.autoscaling": {
		short: "hpa", changed: autoscalerFacts, claims: []string{"status"}, born: func(o object) string {
			return fmt.Sprintf("%d to %d replicas of %s", number(o, "spec", "minReplicas"),
				number(o, "spec", "maxReplicas"),
				text(o, "spec", "scaleTargetRef", "name"))
		},
	},
	"PodDisruptionBudget.policy": {short: "pdb", claims: []string{"status"}},
	"Namespace": {short: "ns", changed: namespaceFacts,
		claims: []string{"status", "spec.finalizers"}},
	"Node": {
		short: "node", changed: nodeFacts, claims: []string{"status", "spec.unschedulable", "spec.taints"},
	},
	"PersistentVolumeClaim": {short: "pvc", changed: phaseFacts,
		claims: []string{"status.phase", "status.capacity", "status.accessModes",
			"spec.volumeName", "metadata.annotations", "metadata.finalizers"}},
	"PersistentVolume": {short: "pv", changed: phaseFacts,
		claims: []string{"status", "metadata.finalizers"}},
	"ConfigMap":                 {short: "cm"},
	"Secret":                    {short: "secret"},
	"Service":                   {short: "svc"},
	"ServiceAccount":            {short: "sa"},
	"Ingress.networking.k8s.io": {short: "ing"},
	"CustomResourceDefinition.apiextensions.k8s.io": {short: "crd"},
	"Lease.coordination.k8s.io": {
		short: "lease", claims: []string{"spec.acquireTime", "spec.leaseTransitions", "spec.leaseDurationSeconds"},
	},
	"EndpointSlice.discovery.k8s.io": {short: "endpointslice", leftOut: always},
	"Endpoints":                      {short: "endpoints", leftOut: always},
	"ControllerRevision.apps":        {short: "controllerrevision", leftOut: always},
}

// eventsOfFields are the reasons of Events that say what a field has said, or what other objects do.
var eventsOfFields = []string{
	"ScalingReplicaSet", "SuccessfulCreate", "SuccessfulDelete", "Scheduled", "Pulling", "Pulled",
	"Created", "Started", "Killing", "BackOff", "Completed", "SuccessfulRescale", "SawCompletedJob",
	"NodeNotSchedulable", "NodeSchedulable", "LeaderElection", "ProvisioningSucceeded",
	"ExternalProvisioning", "Provisioning", "WaitForFirstConsumer", "TaintManagerEviction", "Evicted",
}

// topics say what a Warning is about, by its reason: a field that is about the same has said it.
var topics = map[string]string{
	"FailedScheduling": "schedule", "Failed": "image", "ErrImagePull": "image", "BackOff": "crash", "Unhealthy": "probe",
	"FailedCreate": "create", "BackoffLimitExceeded": "failed", "DeadlineExceeded": "failed",
}

// good are conditions that should be True, and wrong those that should not.
var (
	good = []string{"Ready", "Available", "Synced", "Healthy", "Established", "Reconciled", "Accepted",
		"Programmed", "Succeeded"}
	ill = []string{"Failed", "Failure", "Degraded", "Stalled", "Error", "Pressure", "Unavailable"}
)

func always(news.Event) bool { return true }

// kindOf returns what is known of a resource.
func kindOf(r resources.Resource) kind {
	name := r.Kind
	if r.Group != "" {
		name += "." + r.Group
	}
	k, known := kinds[name]
	if !known {
		k.short = strings.ToLower(r.Kind)
	}
	return k
}

// by returns who is worth naming.
func (k kind) by(manager string) string {
	if manager == nobody || slices.Contains(k.hands, manager) {
		return ""
	}
	return manager
}

// leftName names what the story has no room for.
func leftName(e news.Event) string {
	switch e.Resource.Kind {
	case "Event":
		return "repeated Events"
	case "Lease":
		return "renewed leases"
	}
	return e.Resource.Resource
}
