package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
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
	"github.com/tidings/tidings/tidingstest/controlplane"
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

func userConfig(t *testing.T, cp *controlplane.ControlPlane, name string) *rest.Config {
	t.Helper()
	config, err := cp.User(name)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// newUser returns a name that nobody has been granted anything by.
func newUser(name string) string { return fmt.Sprintf("%s-%x", name, rand.Uint64()) }

// grant lets a new user list and watch pods everywhere.
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
	eve := newUser("eve")
	pods := informer[*corev1.Pod](t, startFactory(t, userConfig(t, cp, eve), tidings.Options{Backoff: quick}), tidings.Scope{})
	// The informer asks for the objects by way of a watch that begins with them, so that is what the server refuses.
	cannot := `pods: forbidden: User "` + eve + `" cannot list resource "pods" in API group "" at the cluster scope; grant list and watch`

	failure := checkReason(t, pods.WaitForSyncFailFast(t.Context()), reflector.Forbidden)
	if failure.Error() != cannot || failure.Wait != nil {
		t.Errorf("failing fast: got %v\nwant %s", failure, cannot)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	failure = checkReason(t, pods.WaitForSync(ctx), reflector.Forbidden)
	if failure.Error() != cannot || !errors.Is(failure, context.DeadlineExceeded) {
		t.Errorf("at the deadline: got %v\nwant %s", failure, cannot)
	}
	if pods.HasSynced() || pods.Status().NotFresh == nil {
		t.Errorf("the status says all is well: %+v", pods.Status())
	}

	grant(t, clientFor(t, cp.Config()), eve)
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
	cp := plane(t)
	certificate, key := strangersCertificate(t)
	for _, test := range []struct {
		name       string
		spoil      func(*rest.Config)
		reason     reflector.Reason
		begin, end string // of the message; what is between them is the system's
	}{
		{"bad CA", func(c *rest.Config) { c.CAData = certificate }, reflector.Certificate,
			"pods: certificate: x509: certificate signed by unknown authority", "check certificate-authority in the kubeconfig"},
		{"bad server name", func(c *rest.Config) { c.ServerName = "elsewhere.example.com" }, reflector.Certificate,
			"pods: certificate: x509: certificate is valid for ", "check the server's address, or tls-server-name, in the kubeconfig"},
		{"bad client certificate", func(c *rest.Config) { c.CertData, c.KeyData = certificate, key }, reflector.Unauthorized,
			"pods: unauthorized: the server does not accept the credentials", "check the user in the kubeconfig, or log in again"},
		{"bad token", func(c *rest.Config) { c.CertData, c.KeyData, c.BearerToken = nil, nil, "not-a-token" }, reflector.Unauthorized,
			"pods: unauthorized: the server does not accept the credentials", "check the user in the kubeconfig, or log in again"},
		{"wrong port", func(c *rest.Config) { c.Host = "https://" + closedPort(t) }, reflector.Refused,
			"pods: connection refused: dial tcp 127.0.0.1:", "check that the API server is running and the address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := cp.Config()
			test.spoil(config)
			f := startFactory(t, config, tidings.Options{Backoff: quick})
			pods := informer[*corev1.Pod](t, f, tidings.Scope{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := pods.WaitForSyncFailFast(ctx)
			if failure := checkReason(t, err, test.reason); failure.Wait != nil || !failure.Permanent() {
				t.Errorf("failing fast ended with %#v", failure)
			}
			if !strings.HasPrefix(err.Error(), test.begin) || !strings.HasSuffix(err.Error(), "; "+test.end) {
				t.Errorf("got  %v\nwant %s…; %s", err, test.begin, test.end)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err = pods.WaitForSync(ctx)
			if checkReason(t, err, test.reason); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("at the deadline: %v", err)
			}
		})
	}
}

// strangersCertificate returns a certificate that nobody here trusts, and its key.
func strangersCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	private, err := x509.MarshalPKCS8PrivateKey(stranger.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger.Certificate().Raw})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
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

// checkReason checks that err is a *tidings.SyncError of one line with this reason, and returns it.
func checkReason(t *testing.T, err error, reason reflector.Reason) *tidings.SyncError {
	t.Helper()
	failure, ok := errors.AsType[*tidings.SyncError](err)
	if !ok || failure.Cause == nil || failure.Cause.Reason != reason {
		t.Fatalf("got %#v, want the reason %q", err, reason)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	return failure
}

// TestServerComesLater waits at an informer whose server is not there yet.
func TestServerComesLater(t *testing.T) {
	cp := ownPlane(t)
	cp.Kill()
	pods := informer[*corev1.Pod](t, startFactory(t, cp.Config(), tidings.Options{Backoff: quick}), tidings.Scope{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	checkReason(t, pods.WaitForSyncFailFast(ctx), reflector.Refused) // the address may be wrong, as nobody ever answered there
	if err := cp.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pods.WaitForSync(ctx); err != nil {
		t.Error(err)
	}
}
