package proto

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

func TestTrim(t *testing.T) {
	for _, test := range []struct {
		trim  string
		clear func(*corev1.Pod)
	}{
		{"metadata.managedFields", func(p *corev1.Pod) { p.ManagedFields = nil }},
		{"metadata.managedFields.fieldsV1", func(p *corev1.Pod) {
			for i := range p.ManagedFields {
				p.ManagedFields[i].FieldsV1 = nil
			}
		}},
		{"metadata.annotations", func(p *corev1.Pod) { p.Annotations = nil }},
		{"metadata.annotations[checksum/config]", func(p *corev1.Pod) { delete(p.Annotations, "checksum/config") }},
		{"metadata.labels[app]", func(p *corev1.Pod) { delete(p.Labels, "app") }},
		{"spec.containers.env", func(p *corev1.Pod) {
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].Env = nil
			}
		}},
		{"spec.containers.resources.requests[cpu]", func(p *corev1.Pod) {
			for i := range p.Spec.Containers {
				delete(p.Spec.Containers[i].Resources.Requests, corev1.ResourceCPU)
			}
		}},
		{"spec.volumes.projected.sources", func(p *corev1.Pod) { // the fields of VolumeSource are inline
			for i := range p.Spec.Volumes {
				if p.Spec.Volumes[i].Projected != nil {
					p.Spec.Volumes[i].Projected.Sources = nil
				}
			}
		}},
		{"status.conditions.lastTransitionTime", func(p *corev1.Pod) {
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].LastTransitionTime.Reset()
			}
		}},
		{"spec", func(p *corev1.Pod) { p.Spec = corev1.PodSpec{} }},
		{"status", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }},
	} {
		for _, alone := range []bool{false, true} {
			d, err := New[*corev1.Pod](wire.Options{Trim: []string{test.trim}, NoSharing: alone})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range wiretest.Pods(40, 3) {
				data, err := want.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				got, err := d.Decode(data, nil)
				if err != nil {
					t.Fatal(err)
				}
				test.clear(want)
				if err := same(got, want); err != nil {
					t.Fatalf("%s: %v", test.trim, err)
				}
			}
		}
	}
}

// TestTrimDoesNotLeak checks that a trimmed part and an equal untrimmed part of one object stay separate.
func TestTrimDoesNotLeak(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{Trim: []string{"spec.initContainers.env", "spec.initContainers.resources.limits[memory]"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range wiretest.Pods(200, 4) {
		pod.Spec.InitContainers = pod.Spec.Containers
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := d.Decode(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got.Spec.Containers {
				if len(got.Spec.Containers[i].Env) != len(pod.Spec.Containers[i].Env) || len(got.Spec.Containers[i].Resources.Limits) != 1 {
					t.Fatalf("container %d was trimmed: %+v", i, got.Spec.Containers[i])
				}
				if len(got.Spec.InitContainers[i].Env) > 0 || len(got.Spec.InitContainers[i].Resources.Limits) > 0 {
					t.Fatalf("init container %d was not trimmed: %+v", i, got.Spec.InitContainers[i])
				}
			}
		}
	}
}

// TestTrimmedMapsAreNil if nothing is left in them, even if somebody has put another map into the previous version.
func TestTrimmedMapsAreNil(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{Trim: []string{"metadata.labels[a]"}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Labels: map[string]string{"a": "1"}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var last *corev1.Pod
	for i := range 5 {
		if last, err = d.Decode(data, last); err != nil || last.Labels != nil {
			t.Errorf("version %d: %v, %v", i, last.Labels, err)
		}
		last.Labels = map[string]string{}
	}
}

func TestTrimErrors(t *testing.T) {
	for trim, want := range map[string]string{
		"metadata.name":          "metadata.name cannot be trimmed",
		"metadata":               "metadata.name cannot be trimmed",
		"metadata.uid":           "metadata.uid cannot be trimmed",
		"metadata.managedfields": `did you mean "metadata.managedFields"?`,
		"spec.container.env":     `did you mean "spec.containers"?`,
		"spec.volumes.configmap": `did you mean "spec.volumes.configMap"?`,
		"stats":                  `did you mean "status"?`,
		"spec.containers[0]":     "spec.containers is not a map",
		"metadata.labels[app":    "want one map entry in brackets",
		"spec.containers.resources.requests[cpu].format": "name the whole entry",
		"metadata.creationTimestamp.seconds":             "metadata.creationTimestamp has no fields that can be trimmed one by one",
		"":                                               "a field name is missing",
	} {
		_, err := New[*corev1.Pod](wire.Options{Trim: []string{trim}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trim %q: got %v, want an error with %q", trim, err, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"status", "stats", 1}, {"Kitten", "sitting", 3}, {"ABC", "abc", 0}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestNotSupported(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[corev1.Pod](), reflect.TypeFor[*int](), reflect.TypeFor[*struct{ A string }]()} {
		if err := supported(typ); err == nil || !strings.Contains(err.Error(), "ask the server for JSON") {
			t.Errorf("%s: got %v", typ, err)
		}
	}
}
