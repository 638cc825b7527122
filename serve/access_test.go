package serve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

// answerTo sends a GET and returns the code and the body.
func answerTo(t *testing.T, c *rest.Config, path string, header http.Header) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestWhoMayRead compares, for users with different roles, what a replica answers with what the API server answers.
func TestWhoMayRead(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	admin := kubernetes.NewForConfigOrDie(c.Config())
	ctx := t.Context()
	for _, namespace := range []string{"default", "kube-system"} {
		for _, name := range []string{"a", "b"} {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": "confidential-" + namespace + "-" + name}}
			if _, err := admin.CoreV1().ConfigMaps(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ca, proxy, err := ClusterAuthentication(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	r := startReplica(t, Options{Config: c.Config(), ClientCA: ca, FrontProxy: proxy,
		Resources: []string{"configmaps", "pods"}, Logger: newLogger(&logged)})
	rule := func(verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Split(verbs, " "), APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names}
	}
	nobody, err := c.User("nobody")
	if err != nil {
		t.Fatal(err)
	}
	invalid := rest.AnonymousClientConfig(c.Config())
	invalid.BearerToken = "invalid"
	users := map[string]*rest.Config{
		"all":         serviceAccount(t, c.Config(), "all", everything),
		"getter":      serviceAccount(t, c.Config(), "getter", rule("get")),
		"lister":      serviceAccount(t, c.Config(), "lister", rule("list")),
		"only-a":      serviceAccount(t, c.Config(), "only-a", rule("get list watch", "a")),
		"none":        serviceAccount(t, c.Config(), "none"),
		"certificate": nobody,
		"anonymous":   rest.AnonymousClientConfig(c.Config()),
		"invalid":     invalid,
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	paths := []string{
		maps + "/a?resourceVersion=0", maps + "/b?resourceVersion=0", maps + "?resourceVersion=0", "/api/v1/configmaps?resourceVersion=0",
		maps + "?resourceVersion=0&fieldSelector=metadata.name%3Da", maps + "?resourceVersion=0&fieldSelector=metadata.name%3Db",
		maps + "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Da", "/api/v1/configmaps?watch=true&timeoutSeconds=1",
		"/api/v1/pods?resourceVersion=0", "/api/v1/watch/configmaps?timeoutSeconds=1",
	}
	for name, user := range users {
		for _, path := range paths {
			code, body := answerTo(t, r.config(user), path, nil)
			want, wantBody := answerTo(t, user, path, nil)
			switch {
			case name == "certificate" && strings.Contains(path, "/watch/"):
				want = http.StatusForbidden // it is not forwarded
			case name == "anonymous":
				want = http.StatusUnauthorized // of which there is nothing here
			case code == want && want == http.StatusForbidden && body != wantBody:
				t.Errorf("%s %s:\n%s\nwant\n%s", name, path, body, wantBody)
			}
			if code != want {
				t.Errorf("%s %s: %d %s, want %d", name, path, code, body, want)
			}
			if code != http.StatusOK && strings.Contains(body, "confidential") {
				t.Errorf("%s %s: %s", name, path, body)
			}
		}
	}
	t.Run("pretended identities", func(t *testing.T) {
		for _, header := range []http.Header{
			{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
			{"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}},
		} {
			for _, name := range []string{"none", "certificate", "anonymous"} {
				for _, path := range []string{maps + "/a?resourceVersion=0", maps + "/a", "/api/v1/namespaces/default/secrets", "/metrics"} {
					if code, body := answerTo(t, r.config(users[name]), path, header); code == http.StatusOK || strings.Contains(body, "confidential") {
						t.Errorf("%s %v %s: %d %s", name, header, path, code, body)
					}
				}
			}
		}
		code, _ := answerTo(t, r.config(users["all"]), maps+"/a", http.Header{"Impersonate-User": {"nobody"}})
		if code != http.StatusForbidden {
			t.Errorf("impersonating somebody who may not: %d", code)
		}
	})
	t.Run("the replica's own rights", func(t *testing.T) {
		for user, want := range map[string][]string{
			"all": nil, "lister": {"create tokenreviews", "create subjectaccessreviews", "watch configmaps"},
		} {
			s, err := NewServer(Options{Config: users[user], Resources: []string{"configmaps"}})
			if err != nil {
				t.Fatal(err)
			}
			missing, err := s.MissingRights(ctx)
			if err != nil || len(missing) != len(want) {
				t.Errorf("%s: %q, %v", user, missing, err)
			}
			for i, right := range want {
				if !strings.Contains(missing[i], "cluster role must allow to "+right) {
					t.Errorf("%s: %q, want %s", user, missing[i], right)
				}
			}
		}
	})
	t.Run("secrets are forwarded", func(t *testing.T) {
		before := r.counts.forwarded.Load()
		if code, _ := answerTo(t, r.config(users["all"]), "/api/v1/secrets?resourceVersion=0", nil); code != http.StatusOK || r.counts.forwarded.Load() == before {
			t.Errorf("%d, forwarded %d", code, r.counts.forwarded.Load()-before)
		}
		_, err := NewServer(Options{Config: c.Config(), Resources: []string{"secrets"}})
		if err == nil || !strings.Contains(err.Error(), "--serve-secrets") {
			t.Error(err)
		}
	})
	r.stop()
	if strings.Contains(logged.String(), "confidential") {
		t.Error("a value is in the log")
	}
}

// TestRevokedWatchEnds takes the right to a watch away while it runs.
func TestRevokedWatchEnds(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	r := startReplica(t, Options{Config: c.Config(), Resources: []string{"configmaps"}, BookmarkInterval: 500 * time.Millisecond})
	user := serviceAccount(t, c.Config(), "reader", rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	client := kubernetes.NewForConfigOrDie(r.config(user))
	w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	admin := kubernetes.NewForConfigOrDie(c.Config())
	if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*cacheTTL)
	defer cancel()
	for open := true; open; {
		select {
		case _, open = <-w.ResultChan():
		case <-ctx.Done():
			t.Fatal("the watch goes on")
		}
	}
	if _, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); !apierrors.IsForbidden(err) {
		t.Errorf("a list after that: %v", err)
	}
	if n := r.counts.revoked.Load(); n != 1 {
		t.Errorf("%d watches revoked", n)
	}
}
