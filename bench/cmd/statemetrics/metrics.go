package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
)

// metrics holds the lines of all objects, as written when they are scraped.
type metrics struct {
	mu    sync.Mutex
	lines map[metricKey][]byte
	bytes int
}

type metricKey struct {
	resource string
	uid      types.UID
}

func newMetrics() *metrics { return &metrics{lines: map[metricKey][]byte{}} }

func (m *metrics) set(r resource, obj tidings.Object) { m.replace(r, obj.GetUID(), linesOf(r, obj)) }

func (m *metrics) delete(r resource, uid types.UID) { m.replace(r, uid, nil) }

func (m *metrics) replace(r resource, uid types.UID, lines []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := metricKey{r.Resource + "." + r.Group, types.UID(strings.Clone(string(uid)))} // otherwise it keeps the memory of the object's strings alive
	m.bytes += len(lines) - len(m.lines[key])
	if lines == nil {
		delete(m.lines, key)
		return
	}
	m.lines[key] = lines
}

// size returns the number of objects with lines, and the size of these in bytes.
func (m *metrics) size() (objects, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.lines), m.bytes
}

// lines builds the lines of one object.
type lines struct {
	text   []byte
	prefix string // of metric names
	about  string // labels of all lines
}

// add adds a line; labels are alternating names and values.
func (l *lines) add(name string, value float64, labels ...string) {
	l.text = append(append(append(append(l.text, l.prefix...), name...), '{'), l.about...)
	for i := 0; i+1 < len(labels); i += 2 {
		l.text = append(append(append(l.text, ','), labels[i]...), '=')
		l.text = strconv.AppendQuote(l.text, labels[i+1])
	}
	l.text = strconv.AppendFloat(append(l.text, "} "...), value, 'g', -1, 64)
	l.text = append(l.text, '\n')
}

// linesOf returns the lines of an object. They do not refer to the object's memory.
func linesOf(r resource, obj tidings.Object) []byte {
	l := lines{prefix: "kube_" + r.Resource + "_", about: fmt.Sprintf("namespace=%q,name=%q,uid=%q", obj.GetNamespace(), obj.GetName(), obj.GetUID())}
	l.add("created", float64(obj.GetCreationTimestamp().Unix()))
	l.add("labels", 1, flat(obj.GetLabels())...)
	if owner := metav1.GetControllerOf(obj); owner != nil {
		l.add("owner", 1, "owner_kind", owner.Kind, "owner_name", owner.Name)
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		l.pod(obj)
	case *corev1.Node:
		for _, c := range obj.Status.Conditions {
			l.add("status_condition", 1, "condition", string(c.Type), "status", string(c.Status))
		}
	case *appsv1.Deployment:
		l.add("status_replicas", float64(obj.Status.Replicas))
		l.add("status_replicas_available", float64(obj.Status.AvailableReplicas))
	case *appsv1.ReplicaSet:
		l.add("status_replicas", float64(obj.Status.Replicas))
		l.add("status_ready_replicas", float64(obj.Status.ReadyReplicas))
	}
	return append([]byte(nil), l.text...) // drops unused capacity
}

func (l *lines) pod(pod *corev1.Pod) {
	l.add("info", 1, "node", pod.Spec.NodeName, "pod_ip", pod.Status.PodIP, "priority_class", pod.Spec.PriorityClassName)
	l.add("status_phase", 1, "phase", string(pod.Status.Phase))
	for _, c := range pod.Spec.Containers {
		l.add("container_info", 1, "container", c.Name, "image", c.Image)
		for name, quantity := range c.Resources.Requests {
			l.add("container_resource_requests", quantity.AsApproximateFloat64(), "container", c.Name, "resource", string(name))
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		l.add("container_status_restarts_total", float64(c.RestartCount), "container", c.Name)
	}
}

func flat(labels map[string]string) (out []string) {
	for name, value := range labels {
		out = append(out, "label_"+name, value)
	}
	return out
}
