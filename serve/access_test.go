package serve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
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
			data := map[string]string{"value": "confidential-" + namespace + "-" + name}
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
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
		return rbacv1.PolicyRule{
			Verbs: strings.Split(verbs, " "), APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: names,
		}
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
		maps + "/a?resourceVersion=0", maps + "/b?resourceVersion=0", maps + "?resourceVersion=0",
		"/api/v1/configmaps?resourceVersion=0",
		maps + "?resourceVersion=0&fieldSelector=metadata.name%3Da",
		maps + "?resourceVersion=0&fieldSelector=metadata.name%3Db",
		maps + "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Da",
		"/api/v1/configmaps?watch=true&timeoutSeconds=1",
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
				for _, path := range []string{
					maps + "/a?resourceVersion=0", maps + "/a", "/api/v1/namespaces/default/secrets", "/metrics",
				} {
					code, body := answerTo(t, r.config(users[name]), path, header)
					if code == http.StatusOK || strings.Contains(body, "confidential") {
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
		code, _ := answerTo(t, r.config(users["all"]), "/api/v1/secrets?resourceVersion=0", nil)
		if code != http.StatusOK || r.counts.forwarded.Load() == before {
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

// TestRevokedWatchEnds takes the right to a watch away while it runs: the role, or the account that its token is of.
func TestRevokedWatchEnds(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	r := startReplica(t, Options{
		Config: c.Config(), Resources: []string{"configmaps"}, BookmarkInterval: 500 * time.Millisecond,
	})
	admin := kubernetes.NewForConfigOrDie(c.Config())
	rule := rbacv1.PolicyRule{
		Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
	}
	for name, test := range map[string]struct {
		revoke  func(ctx context.Context, name string) error
		refused func(error) bool
	}{
		"no-role": {func(ctx context.Context, name string) error {
			return admin.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
		}, apierrors.IsForbidden},
		"no-account": {func(ctx context.Context, name string) error {
			return admin.CoreV1().ServiceAccounts("default").Delete(ctx, name, metav1.DeleteOptions{})
		}, apierrors.IsUnauthorized},
	} {
		before := r.counts.revoked.Load()
		client := kubernetes.NewForConfigOrDie(r.config(serviceAccount(t, c.Config(), name, rule)))
		cached := metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true}
		w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), cached)
		if err != nil {
			t.Fatal(err)
		}
		if err := test.revoke(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, w)
		_, err = client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if !test.refused(err) {
			t.Errorf("%s: a list after that: %v", name, err)
		}
		if n := r.counts.revoked.Load() - before; n != 1 {
			t.Errorf("%s: %d watches revoked", name, n)
		}
	}
}

// awaitEnd waits until a watch ends, and returns the names of the objects of its last events.
func awaitEnd(t *testing.T, w watch.Interface) (names []string) {
	t.Helper()
	timeout := time.After(3 * time.Minute)
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return names
			}
			if o, ok := e.Object.(metav1.Object); ok {
				names = append(names, o.GetName())
			}
		case <-timeout:
			t.Error("the watch goes on")
			return names
		}
	}
}

// TestWatchEndsWithRight takes away what a watch needs, while objects change: its token expires, or its user leaves a
// group, or the role changes. The watch ends, nothing is sent after that, and the next request is refused.
func TestWatchEndsWithRight(t *testing.T) {
	var valid, member, role atomic.Bool
	for name, test := range map[string]struct {
		right *atomic.Bool
		code  int
	}{
		"token": {&valid, http.StatusUnauthorized},
		"group": {&member, http.StatusForbidden},
		"role":  {&role, http.StatusForbidden},
	} {
		for _, right := range []*atomic.Bool{&valid, &member, &role} {
			right.Store(true)
		}
		v := &reviewer{
			groups: func(token string) ([]string, bool) {
				if member.Load() {
					return []string{"readers"}, token != "caller" || valid.Load()
				}
				return nil, true
			},
			allow: func(spec authorizationv1.SubjectAccessReviewSpec) bool {
				return role.Load() && slices.Contains(spec.Groups, "readers")
			},
		}
		f := newReviewed(t, v, 1, tidingstest.ServerOptions{},
			Options{BookmarkInterval: 50 * time.Millisecond, reviewTTL: 20 * time.Millisecond})
		f.Create(configMap("x", "a"))
		f.synced(t)
		r := f.replicas[0]
		config := r.config(as(f.config, "caller"))
		w, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Watch(t.Context(),
			metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		test.right.Store(false)
		ended := make(chan []string, 1)
		go func() { ended <- awaitEnd(t, w) }() // ends with the watch
		eventually(t, func() bool {
			f.Update(configMap("x", "a"))
			return r.counts.revoked.Load() > 0
		})
		f.Create(configMap("late", "a"))
		f.synced(t)
		if names := <-ended; slices.Contains(names, "late") {
			t.Errorf("%s: the watch was sent what came after it had lost the right: %s", name, names)
		}
		if code, body := answerTo(t, config, mapsPath+"?resourceVersion=0", nil); code != test.code {
			t.Errorf("%s: the next request: %d %s, want %d", name, code, body, test.code)
		}
	}
}

// TestNobodyDecides has an API server that is too busy for reviews: who is not known is not told to be nobody, and
// watches go on.
func TestNobodyDecides(t *testing.T) {
	v := &reviewer{}
	f := newReviewed(t, v, 1, tidingstest.ServerOptions{},
		Options{BookmarkInterval: 50 * time.Millisecond, reviewTTL: 20 * time.Millisecond})
	f.Create(configMap("x", "a"))
	f.synced(t)
	r := f.replicas[0]
	w, err := f.maps(0).Watch(t.Context(), metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	v.busy.Store(true)
	config := r.config(as(f.config, "other"))
	if code, body := answerTo(t, config, mapsPath+"?resourceVersion=0", nil); code != http.StatusGatewayTimeout {
		t.Errorf("%d %s", code, body)
	}
	reviews := v.all.Load()
	eventually(t, func() bool { return v.all.Load() > reviews+3 })
	f.Update(configMap("x", "b"))
	if e := next(t, w); e.Type != watch.Modified {
		t.Errorf("%v", e)
	}
	v.busy.Store(false)
	if code, body := answerTo(t, config, mapsPath+"?resourceVersion=0", nil); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	if n := r.counts.revoked.Load(); n != 0 {
		t.Errorf("%d watches revoked", n)
	}
}
