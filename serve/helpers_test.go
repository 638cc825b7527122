package serve

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// replica is a server of the package in front of an API server, over TLS.
type running struct {
	*Server
	http *httptest.Server
	stop func()
}

// startReplica starts a replica and waits until its resources have synced.
func startReplica(t testing.TB, options Options) *running {
	t.Helper()
	r := startReplicaWithout(t, options)
	eventually(t, func() bool {
		for _, res := range r.resources {
			if _, err := res.Ready(); err != nil {
				return false
			}
		}
		return true
	})
	return r
}

// startReplicaWithout starts a replica and waits for nothing.
func startReplicaWithout(t testing.TB, options Options) *running {
	t.Helper()
	s, err := NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, http: httptest.NewUnstartedServer(s)}
	r.http.EnableHTTP2 = true
	r.http.Config = s.NewHTTPServer()
	r.http.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	r.http.StartTLS()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		s.Shutdown()
		cancel()
		r.http.CloseClientConnections()
		r.http.Close()
		running.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// config returns a copy of a client's configuration for the API server that goes to the replica instead.
func (r *running) config(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Host = r.http.URL
	c.CAFile, c.CAData = "", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.http.Certificate().Raw})
	c.ServerName = "example.com" // of httptest's certificate
	c.QPS = -1
	return c
}

// newLogger returns a logger of everything.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually waits until a condition holds.
func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("in vain")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serviceAccount creates a service account with rights, and returns the configuration of a client with its token.
func serviceAccount(t *testing.T, admin *rest.Config, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(admin)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Name: name}
	accounts := client.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	check(err)
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	check(err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	check(err)
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(err)
	c := rest.AnonymousClientConfig(admin)
	c.BearerToken, c.QPS = token.Status.Token, -1
	return c
}

var everything = rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}

var everyPath = rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}

// newWidget returns a custom object.
func newWidget(name string, r schema.GroupVersionResource) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": int64(7)}}}
	u.SetGroupVersionKind(r.GroupVersion().WithKind("Widget"))
	u.SetNamespace("default")
	u.SetName(name)
	return u
}
