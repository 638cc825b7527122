package serve

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

// clientCAKey is where an API server publishes the authority of its callers.
const clientCAKey = "client-ca-file"

// TestAuthorityIsKnownAtOnce: a caller with a certificate is not refused because the replica has just started.
func TestAuthorityIsKnownAtOnce(t *testing.T) {
	authority := newAuthority(t)
	published := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data: map[string]string{clientCAKey: authority.pem(), "requestheader-client-ca-file": authority.pem(),
			"requestheader-username-headers": `["X-Remote-User"]`},
	}
	ca, proxy, err := ClusterAuthentication(t.Context(), fake.NewClientset(published))
	if err != nil {
		t.Fatal(err)
	}
	certificate := authority.issue(t, "alice").Leaf
	for name, verify := range map[string]func() (x509.VerifyOptions, bool){
		"callers": ca.VerifyOptions, "the front proxy": proxy.VerifyOptions,
	} {
		options, ok := verify()
		if _, err := certificate.Verify(options); !ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	published.Data = map[string]string{clientCAKey: "nonsense"}
	if _, _, err := ClusterAuthentication(t.Context(), fake.NewClientset(published)); err == nil ||
		!strings.Contains(err.Error(), clientCAKey) {
		t.Errorf("a broken authority: %v", err)
	}
	if ca, proxy, err := ClusterAuthentication(t.Context(), fake.NewClientset()); ca != nil || proxy != nil ||
		err != nil {
		t.Errorf("nothing published: %v, %v, %v", ca, proxy, err)
	}
}

// TestFrontProxy: headers that say who the caller is are believed from the cluster's front proxy, and from nobody else.
func TestFrontProxy(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "proxy-ca.crt")
	if err := os.WriteFile(file, []byte(authority.pem()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true, Args: []string{
		"--requestheader-client-ca-file=" + file, "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}})
	ca, proxy, err := ClusterAuthentication(t.Context(), kubernetes.NewForConfigOrDie(c.Config()))
	if err != nil || proxy == nil {
		t.Fatal(proxy, err)
	}
	r := startReplica(t, Options{Config: c.Config(), ClientCA: ca, FrontProxy: proxy, Impersonate: true,
		Resources: []string{"configmaps"}})
	serviceAccount(t, c.Config(), "reader", rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""},
		Resources: []string{"configmaps"}})
	alice := http.Header{"X-Remote-User": {"system:serviceaccount:default:reader"},
		"X-Remote-Group": {"system:serviceaccounts"}}
	admin := http.Header{"X-Remote-User": {"somebody"}, "X-Remote-Group": {"system:masters"}}
	nobody, err := c.User("nobody")
	if err != nil {
		t.Fatal(err)
	}
	with := func(certificate tls.Certificate) *rest.Config {
		config := rest.AnonymousClientConfig(c.Config())
		config.CertData, config.KeyData = encode(t, certificate)
		return config
	}
	for name, test := range map[string]struct {
		config *rest.Config
		header http.Header
		secret int // the code for secrets, which are forwarded
		maps   int
	}{
		"front proxy": {with(authority.issue(t, "front-proxy")), alice, http.StatusForbidden,
			http.StatusOK},
		"front proxy, administrator": {with(authority.issue(t, "front-proxy")), admin, http.StatusOK, http.StatusOK},
		"front proxy without header": {with(authority.issue(t, "front-proxy")), nil, http.StatusUnauthorized,
			http.StatusUnauthorized},
		"another name": {with(authority.issue(t, "other")), admin, http.StatusUnauthorized,
			http.StatusUnauthorized},
		"another authority": {with(other.issue(t, "front-proxy")), admin, http.StatusUnauthorized,
			http.StatusUnauthorized},
		"a client": {nobody, admin, http.StatusForbidden, http.StatusForbidden},
		"no certificate": {rest.AnonymousClientConfig(c.Config()), admin, http.StatusUnauthorized,
			http.StatusUnauthorized},
	} {
		code, body := answerTo(t, r.config(test.config), "/api/v1/configmaps?resourceVersion=0", test.header)
		if code != test.maps {
			t.Errorf("%s: config maps: %d %s", name, code, body)
		}
		if code, body := answerTo(t, r.config(test.config), "/api/v1/secrets", test.header); code != test.secret {
			t.Errorf("%s: secrets: %d %s", name, code, body)
		}
	}
}
