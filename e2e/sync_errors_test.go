package e2e

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/tidingstest"
)

// waitForSync waits until the factory's informers have synced.
func waitForSync(t *testing.T, f *tidings.Factory) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
}

func userConfig(t *testing.T, cp *tidingstest.ControlPlane, name string) *rest.Config {
	t.Helper()
	config, err := cp.User(name)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// grant lets a user list and watch pods everywhere, until the test ends.
func grant(t *testing.T, client kubernetes.Interface, user string) {
	t.Helper()
	rbac := client.RbacV1()
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForbidden waits at a user's informer that may not see anything, in both ways, until somebody grants it.
func TestForbidden(t *testing.T) {
	cp := plane(t)
	pods := informer[*corev1.Pod](t, startFactory(t, userConfig(t, cp, "eve"), tidings.Options{Backoff: quick}), tidings.Scope{})
	const cannot = `pods: forbidden: User "eve" cannot list resource "pods" in API group "" at the cluster scope; grant list and watch`

	err := pods.WaitForSyncFailFast(t.Context())
	checkSyncError(t, err, reflector.Forbidden, strings.Replace(cannot, "cannot list", "cannot watch", 1), cannot)
	if failure, ok := errors.AsType[*tidings.SyncError](err); ok && failure.Wait != nil {
		t.Errorf("failing fast ended with %v", failure.Wait)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = pods.WaitForSync(ctx)
	checkSyncError(t, err, reflector.Forbidden, strings.Replace(cannot, "cannot list", "cannot watch", 1), cannot)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not wrap the end of the context", err)
	}
	if pods.HasSynced() || !pods.Status().Stale {
		t.Errorf("the status says all is well: %+v", pods.Status())
	}

	grant(t, clientFor(t, cp.Config()), "eve")
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pods.WaitForSync(ctx); err != nil {
		t.Errorf("after the grant: %v", err)
	}
	if err := pods.Fresh(); err != nil {
		t.Errorf("after the grant: %v", err)
	}
}

// TestForbiddenInOneNamespace names the namespace that is in the way.
func TestForbiddenInOneNamespace(t *testing.T) {
	cp := plane(t)
	f := startFactory(t, userConfig(t, cp, "mallory"), tidings.Options{Backoff: quick})
	pods := informer[*corev1.Pod](t, f, tidings.Scope{Namespaces: []string{"default", "kube-system"}})
	err := pods.WaitForSyncFailFast(t.Context())
	failure, ok := errors.AsType[*tidings.SyncError](err)
	if !ok || failure.Namespace == "" || !strings.Contains(err.Error(), `in the namespace "`+failure.Namespace+`"`) {
		t.Errorf("got %v", err)
	}
}

// TestUnreachable is about everything that keeps a program from talking to the server.
func TestUnreachable(t *testing.T) {
	cp, other := plane(t), ownPlane(t)
	for _, test := range []struct {
		name   string
		spoil  func(*rest.Config)
		reason reflector.Reason
		want   string // how the message begins; the rest is the operating system's
		end    string // how it ends
	}{
		{"bad CA", func(c *rest.Config) { c.CAData = other.Config().CAData }, reflector.Certificate,
			"pods: certificate: x509: certificate signed by unknown authority", "check certificate-authority in the kubeconfig"},
		{"bad client certificate", func(c *rest.Config) { c.CertData, c.KeyData = other.Config().CertData, other.Config().KeyData },
			reflector.Unauthorized, "pods: unauthorized: the server does not accept the credentials",
			"check the user in the kubeconfig, or log in again"},
		{"bad server name", func(c *rest.Config) { c.ServerName = "elsewhere.example.com" }, reflector.Certificate,
			"pods: certificate: x509: certificate is valid for ", "check the server's address, or tls-server-name, in the kubeconfig"},
		{"wrong port", func(c *rest.Config) { c.Host = "https://" + closedPort(t) }, reflector.Refused,
			"pods: connection refused: dial tcp 127.0.0.1:", "check that the API server is running and the address"},
		{"bad token", func(c *rest.Config) { c.CertData, c.KeyData, c.BearerToken = nil, nil, "not-a-token" }, reflector.Unauthorized,
			"pods: unauthorized: the server does not accept the credentials", "check the user in the kubeconfig, or log in again"},
		{"unknown host", func(c *rest.Config) { c.Host = "https://no-such-host.invalid:6443" }, reflector.DNS,
			"pods: name resolution: ", "check the host name in the kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := cp.Config()
			test.spoil(config)
			pods := informer[*corev1.Pod](t, startFactory(t, config, tidings.Options{Backoff: quick}), tidings.Scope{})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := pods.WaitForSync(ctx)
			checkReason(t, err, test.reason)
			if !strings.HasPrefix(err.Error(), test.want) || !strings.HasSuffix(err.Error(), "; "+test.end) {
				t.Errorf("got  %v\nwant %s…; %s", err, test.want, test.end)
			}
			permanent := test.reason == reflector.Certificate || test.reason == reflector.Unauthorized
			if failure, ok := errors.AsType[*tidings.SyncError](err); !ok || failure.Permanent() != permanent {
				t.Errorf("permanent should be %t: %#v", permanent, failure)
			}
		})
	}
}

// closedPort returns a loopback address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// checkSyncError checks that the message is one of those, and the reason.
func checkSyncError(t *testing.T, err error, reason reflector.Reason, want ...string) {
	t.Helper()
	checkReason(t, err, reason)
	for _, w := range want {
		if err.Error() == w {
			return
		}
	}
	t.Errorf("got  %v\nwant %s", err, strings.Join(want, "\nor   "))
}

func checkReason(t *testing.T, err error, reason reflector.Reason) {
	t.Helper()
	if err == nil {
		t.Fatal("it synced")
	}
	failure, ok := errors.AsType[*tidings.SyncError](err)
	if !ok || failure.Cause == nil || failure.Cause.Reason != reason {
		t.Errorf("got %#v, want the reason %q", err, reason)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// TestServerComesLater waits at an informer whose server is not there yet.
func TestServerComesLater(t *testing.T) {
	cp := ownPlane(t)
	cp.Kill()
	pods := informer[*corev1.Pod](t, startFactory(t, cp.Config(), tidings.Options{Backoff: quick}), tidings.Scope{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	checkReason(t, pods.WaitForSyncFailFast(ctx), reflector.Refused) // which heals by itself, so it waited
	if err := cp.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pods.WaitForSyncFailFast(ctx); err != nil {
		t.Error(err)
	}
}
