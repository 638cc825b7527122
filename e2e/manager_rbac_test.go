package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// front lets a process in as a certain user, and writes down what it asks for. It refuses the first
// deletion of a pod as a conflict, after which the pod is looked up.
type front struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]bool // "verb group/resource"
}

func newFront(t *testing.T, config *rest.Config) *front {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{calls: map[string]bool{}}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport, forward.FlushInterval = transport, -1
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		rule := asRule(r)
		conflict := rule == "delete /pods" && !f.calls[rule]
		f.calls[rule] = true
		f.mu.Unlock()
		if conflict {
			refuse(w)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// refuse answers with a conflict.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a client that has gone needs no answer
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict, Message: "try again",
	})
}

// asked returns what was asked for so far.
func (f *front) asked() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// asRule says which RBAC rule a request needs.
func asRule(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group, parts := "", parts[2:] // api/v1/…
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		group, parts = strings.Split(r.URL.Path, "/")[2], parts[1:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource, named := parts[0], len(parts) > 1
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{http.MethodGet: "list", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	switch {
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case verb == "list" && named:
		verb = "get"
	}
	return verb + " " + group + "/" + resource
}

// applyManifest creates what deploy/rbac.yaml says, once for all tests, and returns the rules and the account's name.
func applyManifest(t *testing.T, client kubernetes.Interface) (rules []rbacv1.PolicyRule, user, namespace string) {
	t.Helper()
	content, err := os.ReadFile("../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var o runtime.Object
		o, _, err = scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch o := o.(type) {
		case *corev1.Namespace:
			_, err = client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.ServiceAccount:
			user, namespace = "system:serviceaccount:"+o.Namespace+":"+o.Name, o.Namespace
			_, err = client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			rules = append(rules, o.Rules...)
			_, err = client.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			rules = append(rules, o.Rules...)
			_, err = client.RbacV1().Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		default:
			t.Fatalf("what about %T?", o)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return rules, user, namespace
}

// asDeployed returns a front for the account of the manifests.
func asDeployed(t *testing.T, cp *controlplane.ControlPlane) (f *front, rules []rbacv1.PolicyRule, namespace string) {
	t.Helper()
	rules, user, namespace := applyManifest(t, clientFor(t, cp.Config()))
	config, err := cp.User(user, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	if err != nil {
		t.Fatal(err)
	}
	return newFront(t, config), rules, namespace
}

// TestManagerNeedsExactlyItsManifest runs the program with the rights of the manifest, has it do
// all that it can, and compares what it asked for with what is granted.
func TestManagerNeedsExactlyItsManifest(t *testing.T) {
	cp := plane(t)
	w := newQuietWorld(t, cp)
	f, rules, namespace := asDeployed(t, cp)
	// The lease has to be made, which it is only if no test before has left it.
	err := w.client.CoordinationV1().Leases(namespace).Delete(t.Context(), "tidings-controller-manager", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	p := startManager(t, f.URL, "--leader-elect-namespace", namespace, "--namespaces", w.namespace)

	w.createOrphan("web")
	w.createSet("web", 20, nil) // so many that their events are merged, which is done by patches
	w.settled("web", 20)
	w.release("orphan-web")
	await(t, w.pods, "another in its place", func(s tidings.Snapshot[*corev1.Pod]) bool { return s.Len() == 21 })
	w.settled("web", 20)
	w.scale("web", 1)
	w.settled("web", 1)
	w.awaitEvent("web", "SuccessfulDelete")
	w.createOrphan("old")
	w.createController("old", 2)
	w.repeatedEvent("web")

	if code, body := p.get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
	compareRules(t, f, rules)
}

// compareRules compares what was asked for with what is granted.
func compareRules(t *testing.T, f *front, rules []rbacv1.PolicyRule) {
	t.Helper()
	granted := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[verb+" "+group+"/"+resource] = true
				}
			}
		}
	}
	// The right to block the deletion of owners is never used for a call.
	maps.DeleteFunc(granted, func(rule string, _ bool) bool { return strings.HasSuffix(rule, "/finalizers") })
	asked := f.asked()
	for call := range maps.Clone(asked) { // what is watched has to be listed where a server cannot stream it
		if watched, ok := strings.CutPrefix(call, "watch "); ok {
			asked["list "+watched] = true
		}
	}
	if !maps.Equal(granted, asked) {
		t.Errorf("the calls and the manifest differ:\nasked   %v\ngranted %v", slices.Sorted(maps.Keys(asked)), slices.Sorted(maps.Keys(granted)))
	}
}

// TestManagerSaysWhatIsNotGranted runs the program as somebody who may do nothing.
func TestManagerSaysWhatIsNotGranted(t *testing.T) {
	cp := plane(t)
	config, err := cp.User("nobody-in-particular")
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(t, config)
	p := startManager(t, f.URL, "--leader-elect=false")
	for _, resource := range []string{"pods", "replicasets.apps", "replicationcontrollers"} {
		p.awaitLine(resource + `: forbidden: .*nobody-in-particular.* cannot (list|watch) resource`)
	}
	if code, body := p.get("/readyz"); code == http.StatusOK || !strings.Contains(body, "forbidden") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	_ = p.signal(syscall.SIGTERM)

	p = startManager(t, f.URL, "--leader-elect-namespace", "default")
	p.awaitLine(`pods: forbidden: .*nobody-in-particular`) // it does not compete for the lease before its caches have synced
	if err := p.signal(syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// createOrphan makes a pod that the set or controller of this name could adopt.
func (w *world) createOrphan(app string) {
	w.t.Helper()
	tmpl := template(app)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan-" + app, Labels: tmpl.Labels}, Spec: tmpl.Spec}
	if _, err := w.client.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	await(w.t, w.pods, "the orphan", func(s tidings.Snapshot[*corev1.Pod]) bool {
		_, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: pod.Name})
		return ok
	})
}

// release gives a pod labels that its owner does not want, and waits until the owner lets go.
func (w *world) release(name string) {
	w.t.Helper()
	patch := []byte(`{"metadata":{"labels":{"app":"debug"}}}`)
	if _, err := w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	await(w.t, w.pods, "the release of "+name, func(s tidings.Snapshot[*corev1.Pod]) bool {
		p, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: name})
		return ok && p.Labels["app"] == "debug" && metav1.GetControllerOf(p) == nil
	})
}

// createController makes a ReplicationController and waits for its replicas.
func (w *world) createController(name string, n int32) {
	w.t.Helper()
	tmpl := template(name)
	_, err := w.client.CoreV1().ReplicationControllers(w.namespace).Create(w.t.Context(), &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ReplicationControllerSpec{Replicas: &n, Template: &tmpl},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	await(w.t, w.rcs, fmt.Sprintf("%d replicas of %s", n, name), func(s tidings.Snapshot[*corev1.ReplicationController]) bool {
		rc, ok := s.Get(tidings.Key{Namespace: w.namespace, Name: name})
		return ok && rc.Status.Replicas == n && rc.Status.ObservedGeneration == rc.Generation
	})
}

// repeatedEvent waits for an event about the object that has happened more than once.
func (w *world) repeatedEvent(about string) {
	w.t.Helper()
	f := startFactory(w.t, plane(w.t).Config(), tidings.Options{})
	events := informer[*corev1.Event](w.t, f, tidings.Scope{Namespaces: []string{w.namespace}})
	await(w.t, events, "a repeated event about "+about, func(s tidings.Snapshot[*corev1.Event]) bool {
		for _, e := range s.All() {
			if e.InvolvedObject.Name == about && e.Count > 1 {
				return true
			}
		}
		return false
	})
}
