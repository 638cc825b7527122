// Package deploy checks the manifests beside it.
package deploy

import (
	"bytes"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// decode reads a manifest's objects. A field that does not exist is an error.
func decode(t *testing.T, file string) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		o, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, document)
		}
		objects = append(objects, o)
	}
	return objects
}

// only returns the one object of type T.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o runtime.Object) bool { _, ok := o.(T); return ok })
	if i < 0 {
		t.Fatalf("no %T", *new(T))
	}
	return objects[i].(T)
}

func TestTheRolesAreBoundToTheDeploymentsAccount(t *testing.T) {
	rbac := decode(t, "rbac.yaml")
	account := only[*corev1.ServiceAccount](t, rbac)
	deployment := only[*appsv1.Deployment](t, decode(t, "deployment.yaml"))
	if only[*corev1.Namespace](t, rbac).Name != account.Namespace || deployment.Namespace != account.Namespace {
		t.Error("the namespaces differ")
	}
	if deployment.Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Errorf("the deployment runs as %q", deployment.Spec.Template.Spec.ServiceAccountName)
	}
	subject := rbacv1.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}
	cluster, local := only[*rbacv1.ClusterRoleBinding](t, rbac), only[*rbacv1.RoleBinding](t, rbac)
	if !slices.Equal(cluster.Subjects, []rbacv1.Subject{subject}) || cluster.RoleRef.Name != only[*rbacv1.ClusterRole](t, rbac).Name {
		t.Errorf("the cluster role is bound as %+v", cluster)
	}
	if !slices.Equal(local.Subjects, []rbacv1.Subject{subject}) || local.RoleRef.Name != only[*rbacv1.Role](t, rbac).Name || local.Namespace != account.Namespace {
		t.Errorf("the role is bound as %+v", local)
	}
}

// TestElectionEventsNeedNoClusterRole: without the ClusterRoleBinding, for a few namespaces only,
// the events about the lease can still be written in the lease's namespace.
func TestElectionEventsNeedNoClusterRole(t *testing.T) {
	role := only[*rbacv1.Role](t, decode(t, "rbac.yaml"))
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.Resources, []string{"events"}) &&
			slices.Contains(r.Verbs, "create") && slices.Contains(r.Verbs, "patch")
	}) {
		t.Errorf("the rules %+v permit no events", role.Rules)
	}
}

func TestTheDeploymentIsSafeAndObserved(t *testing.T) {
	deployment := only[*appsv1.Deployment](t, decode(t, "deployment.yaml"))
	spec := deployment.Spec.Template.Spec
	container := spec.Containers[0]
	if *deployment.Spec.Replicas < 2 {
		t.Error("nobody stands by")
	}
	if s := spec.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context of the pod: %+v", s)
	}
	if s := container.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context of the container: %+v", s)
	}
	if container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources %+v", container.Resources)
	}
	i := slices.IndexFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--bind-address=") })
	host, port, err := net.SplitHostPort(strings.TrimPrefix(container.Args[i], "--bind-address="))
	if err != nil || host != "0.0.0.0" {
		t.Errorf("%s: probes come from outside of the pod", container.Args[i])
	}
	if len(container.Ports) != 1 || port != "9440" || container.Ports[0].ContainerPort != 9440 {
		t.Errorf("port %s is served, %+v are declared", port, container.Ports)
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != container.Ports[0].Name {
			t.Errorf("probe of %s: %+v", path, probe.HTTPGet)
		}
	}
}
