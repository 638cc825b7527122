package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// State is the state of a cluster.
type State struct {
	// Lines are sorted, and contain nothing random: no names of pods and slices, addresses, times or versions.
	Lines []string
	// Unsettled names the objects that have not reached their desired state.
	Unsettled []string
	// Settled is the time from the last round until nothing was left to do.
	Settled time.Duration

	owners map[types.UID]bool // existing ones
}

// ReadState reads the state of the scenario's namespaces.
func ReadState(ctx context.Context, client kubernetes.Interface) (State, error) {
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: scenarioLabel})
	if err != nil {
		return State{}, err
	}
	s := State{owners: map[types.UID]bool{}}
	for _, ns := range namespaces.Items {
		s.add(ns.Status.Phase == corev1.NamespaceActive, "Namespace %s %s", ns.Name, ns.Status.Phase)
		for _, read := range []func(context.Context, kubernetes.Interface, string) error{s.deployments, s.replicaSets, s.jobs, s.controllers, s.pods, s.configMaps, s.endpoints} {
			if err := read(ctx, client, ns.Name); err != nil {
				return State{}, err
			}
		}
	}
	slices.Sort(s.Lines)
	return s, nil
}

// add adds a line; settled says whether the object has reached its desired state.
func (s *State) add(settled bool, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.Lines = append(s.Lines, line)
	if !settled {
		s.Unsettled = append(s.Unsettled, line)
	}
}

func (s *State) deployments(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range found.Items {
		s.owners[d.UID] = true
		want, has := *d.Spec.Replicas, d.Status
		settled := has.ObservedGeneration == d.Generation && has.Replicas == want && has.UpdatedReplicas == want && has.AvailableReplicas == want
		s.add(settled, "Deployment %s/%s replicas=%d/%d updated=%d available=%d", ns, d.Name, has.Replicas, want, has.UpdatedReplicas, has.AvailableReplicas)
	}
	return nil
}

func (s *State) replicaSets(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.AppsV1().ReplicaSets(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, rs := range found.Items {
		s.owners[rs.UID] = true
		want, has := *rs.Spec.Replicas, rs.Status
		if want == 0 && has.Replicas == 0 {
			continue // which revisions a Deployment goes through depends on timing
		}
		settled := s.owned(&rs) && has.ObservedGeneration == rs.Generation && has.Replicas == want && has.AvailableReplicas == want
		s.add(settled, "ReplicaSet %s/%s owner=%s replicas=%d/%d available=%d", ns, rs.Name, owner(&rs), has.Replicas, want, has.AvailableReplicas)
	}
	return nil
}

func (s *State) jobs(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, j := range found.Items {
		s.owners[j.UID] = true
		s.add(j.Status.CompletionTime != nil, "Job %s/%s active=%d succeeded=%d failed=%d", ns, j.Name, j.Status.Active, j.Status.Succeeded, j.Status.Failed)
	}
	return nil
}

func (s *State) controllers(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.CoreV1().ReplicationControllers(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, rc := range found.Items {
		s.owners[rc.UID] = true
		want, has := *rc.Spec.Replicas, rc.Status
		settled := has.ObservedGeneration == rc.Generation && has.Replicas == want && has.AvailableReplicas == want
		s.add(settled, "ReplicationController %s/%s replicas=%d/%d available=%d", ns, rc.Name, has.Replicas, want, has.AvailableReplicas)
	}
	return nil
}

func (s *State) pods(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, p := range found.Items {
		if !s.owned(&p) || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending {
			s.Unsettled = append(s.Unsettled, "Pod "+ns+"/"+p.Name)
		}
		count[fmt.Sprintf("Pods of %s/%s %s image=%s", ns, owner(&p), p.Status.Phase, p.Spec.Containers[0].Image)]++
	}
	for line, n := range count {
		s.add(true, "%s: %d", line, n)
	}
	return nil
}

func (s *State) configMaps(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, m := range found.Items {
		s.add(s.owned(&m), "ConfigMap %s/%s", ns, m.Name)
	}
	return nil
}

func (s *State) endpoints(ctx context.Context, client kubernetes.Interface, ns string) error {
	found, err := client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := map[string]int{} // by service
	for _, slice := range found.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready[slice.Labels[discoveryv1.LabelServiceName]]++
			}
		}
	}
	services, err := client.CoreV1().Services(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, svc := range services.Items {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(metav1.SetAsLabelSelector(svc.Spec.Selector))})
		if err != nil {
			return err
		}
		s.add(ready[svc.Name] == len(pods.Items), "Endpoints %s/%s ready=%d", ns, svc.Name, ready[svc.Name])
	}
	return nil
}

// owned reports whether all owners of an object exist.
func (s *State) owned(o metav1.Object) bool {
	return !slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return !s.owners[ref.UID] })
}

// owner names the controller of an object. Names that end in the hash of a template are the same in every run.
func owner(o metav1.Object) string {
	ref := metav1.GetControllerOf(o)
	if ref == nil {
		return "nobody"
	}
	return ref.Kind + "/" + ref.Name
}

// Difference returns the lines that only one of the states has, prefixed with - for this one and + for the
// other.
func (s State) Difference(other State) string {
	var lines []string
	for _, line := range s.Lines {
		if !slices.Contains(other.Lines, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range other.Lines {
		if !slices.Contains(s.Lines, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return strings.Join(lines, "\n")
}
