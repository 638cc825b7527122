package serve

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

var differential = flag.Int("differential", 600, "how many requests TestDifferential sends to both servers")

// compared is one resource of which TestDifferential reads objects.
type compared struct {
	list       string // its path without namespaces
	namespaced bool
	fields     []string // that a selector may use, with values
}

var comparedResources = []compared{
	{"/api/v1/configmaps", true, []string{"metadata.name=a", "metadata.namespace=n1", "data.x=1"}},
	{"/api/v1/pods", true, []string{"spec.nodeName=node-a", "status.phase=Pending", "metadata.name=b", "spec.x=1",
		"metadata.namespace=n2", "spec.nodeName!=node-a", "spec.nodeName=node-b,metadata.namespace=n1"}},
	{"/api/v1/nodes", false, []string{"metadata.name=node-a", "metadata.namespace=x", "spec.unschedulable=false"}},
	{"/api/v1/namespaces", false, []string{"metadata.name=n1", "metadata.namespace=x", "status.phase=Active"}},
	{"/api/v1/events", true, []string{"involvedObject.name=a", "reason=R", "metadata.namespace=n1",
		"regarding.name=a"}},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", false, []string{"metadata.name=low", "metadata.namespace=x",
		"metadata.namespace!=x"}},
	{"/apis/example.com/v1/widgets", true, []string{"spec.color=red", "spec.size=1", "metadata.name=a",
		"metadata.namespace=n1"}},
	{"/apis/example.com/v1/gadgets", false, []string{"metadata.name=a", "metadata.namespace=x", "spec.color=red"}},
	{"/api/v1/secrets", true, []string{"type=Opaque"}}, // which is forwarded
}

var (
	comparedNamespaces = []string{"n1", "n2", "n2-x"}
	comparedNames      = []string{"a", "b", "c", "d", "e"}
)

// compareWorld is an API server and a replica in front of it.
type compareWorld struct {
	t       *testing.T
	random  *rand.Rand
	admin   kubernetes.Interface
	dynamic dynamic.Interface
	replica *running
	users   map[string]comparedUser

	mu       sync.Mutex // guards the fields below
	versions []string   // that the API server has given since the replica has started
	tokens   []string   // continue tokens of either
	seen     map[string]int
}

// comparedUser asks both servers: over HTTP/2, and over HTTP/1.1 for headers of the connection.
type comparedUser struct{ direct, replica [2]asker }

// TestDifferential sends random requests to an API server and to a replica in front of it, while objects change between
// batches. The answers are equal but for the differences that docs/serve.md names, each of which has its place in
// isNamed.
func TestDifferential(t *testing.T) {
	w := newCompareWorld(t)
	for sent := 0; sent < *differential && w.different() < 20; sent += inBatch {
		for range 3 {
			w.change()
		}
		w.catchUp()
		var work sync.WaitGroup
		atOnce := make(chan struct{}, 16) // most of the time goes into watches and versions that do not exist yet
		for range inBatch {
			request := w.randomRequest()
			atOnce <- struct{}{}
			work.Go(func() {
				defer func() { <-atOnce }()
				w.compare(request)
			})
		}
		work.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("answered from memory %d, forwarded %d; %v",
		w.replica.counts.answered.Load(), w.replica.counts.forwarded.Load(), w.seen)
	if w.replica.counts.answered.Load() < int64(*differential/8) {
		t.Error("too little is answered from memory")
	}
}

func (w *compareWorld) different() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen["different"]
}

func newCompareWorld(t *testing.T) *compareWorld {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	w := &compareWorld{
		t: t, random: testseed.Rand(t), admin: kubernetes.NewForConfigOrDie(c.Config()),
		dynamic: dynamic.NewForConfigOrDie(c.Config()), seen: map[string]int{},
	}
	for _, namespace := range comparedNamespaces {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := w.admin.CoreV1().Namespaces().Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	define(t, w.dynamic, "Widget", "Namespaced", ".spec.color")
	define(t, w.dynamic, "Gadget", "Cluster")
	for _, r := range comparedResources {
		gvr, _ := protocol.ParsePath(r.list)
		client := dynamic.ResourceInterface(w.dynamic.Resource(gvr.Resource))
		if r.namespaced {
			client = w.dynamic.Resource(gvr.Resource).Namespace("n1")
		}
		if o := w.object(r, "n1", "a"); o != nil {
			create(t, client, o)
		}
	}
	w.replica = startReplica(t, Options{Config: c.Config(), Resources: []string{
		"configmaps", "pods", "nodes", "namespaces", "events", "priorityclasses.scheduling.k8s.io",
		"widgets.example.com", "gadgets.example.com",
	}})
	rule := func(resources, verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{"*"},
			Resources: strings.Fields(resources), ResourceNames: names}
	}
	invalid := rest.AnonymousClientConfig(c.Config())
	invalid.BearerToken = "invalid"
	w.users = map[string]comparedUser{}
	for name, config := range map[string]*rest.Config{
		"all":     serviceAccount(t, c.Config(), "all", everything, everyPath),
		"getter":  serviceAccount(t, c.Config(), "getter", rule("*", "get")),
		"lister":  serviceAccount(t, c.Config(), "lister", rule("configmaps pods widgets", "list watch")),
		"only-a":  serviceAccount(t, c.Config(), "only-a", rule("*", "get list watch", "a")),
		"none":    serviceAccount(t, c.Config(), "none"),
		"invalid": invalid,
	} {
		old := rest.CopyConfig(config)
		old.NextProtos = []string{"http/1.1"}
		oldReplica := w.replica.config(old)
		w.users[name] = comparedUser{
			direct:  [2]asker{askerOf(t, config), askerOf(t, old)},
			replica: [2]asker{askerOf(t, w.replica.config(config)), askerOf(t, oldReplica)},
		}
	}
	return w
}

// define defines a custom resource, with fields that selectors may use.
func define(t *testing.T, client dynamic.Interface, kind, scope string, selectable ...string) {
	t.Helper()
	var fields []any
	for _, path := range selectable {
		fields = append(fields, map[string]any{"jsonPath": path})
	}
	plural := strings.ToLower(kind) + "s"
	text := map[string]any{"type": "object", "properties": map[string]any{
		"color": map[string]any{"type": "string"}, "n": map[string]any{"type": "integer"},
	}}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": scope,
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind,
				"listKind": kind + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "selectableFields": fields,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": text},
				}},
			}},
		},
	}}
	if _, err := client.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// change creates, updates or deletes an object.
func (w *compareWorld) change() {
	r := pick(w.random, comparedResources)
	o := w.object(r, pick(w.random, comparedNamespaces), pick(w.random, comparedNames))
	if o == nil {
		return
	}
	target, _ := protocol.ParsePath(r.list)
	client := dynamic.ResourceInterface(w.dynamic.Resource(target.Resource))
	if r.namespaced {
		client = w.dynamic.Resource(target.Resource).Namespace(o.GetNamespace())
	}
	ctx := w.t.Context()
	var err error
	switch before, getErr := client.Get(ctx, o.GetName(), metav1.GetOptions{}); {
	case apierrors.IsNotFound(getErr):
		o, err = client.Create(ctx, o, metav1.CreateOptions{})
	case getErr != nil:
		err = getErr
	case w.random.IntN(2) == 0:
		err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		o = nil
	default:
		before.SetLabels(o.GetLabels())
		o, err = client.Update(ctx, before, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		w.t.Fatal(err)
	}
	if err == nil && o != nil {
		w.remember(o.GetResourceVersion(), "")
	}
}

// catchUp waits until the replica has what the API server has.
func (w *compareWorld) catchUp() {
	for _, r := range comparedResources[:len(comparedResources)-1] {
		target, _ := protocol.ParsePath(r.list)
		list, err := w.dynamic.Resource(target.Resource).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		newest := uint64(0)
		for _, o := range list.Items {
			version, _ := protocol.ParseVersion(o.GetResourceVersion()) // of a server that has versions
			newest = max(newest, version)
		}
		held := w.replica.served(target.Resource).Collection
		eventually(w.t, func() bool {
			stats := held.Stats()
			return stats.Version >= newest && stats.Objects == len(list.Items)
		})
	}
}

// served returns a resource that is served.
func (r *running) served(gvr schema.GroupVersionResource) *replica.Resource {
	i := slices.IndexFunc(r.resources, func(one *replica.Resource) bool {
		return one.Found().GroupVersionResource == gvr
	})
	return r.resources[i]
}

func (w *compareWorld) remember(version, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version != "" {
		w.versions = append(w.versions, version)
	}
	if token != "" {
		w.tokens = append(w.tokens, token)
	}
}

// reply is what one server answered.
type reply struct {
	code   int
	header http.Header
	body   string // in a form in which equal contents are equal
	token  string
}

// ask sends a request.
func (r *comparedRequest) ask(ctx context.Context, a asker) (*reply, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, a.host+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.body == "" {
		request.Body, request.ContentLength, request.GetBody = nil, 0, nil
	}
	request.URL.RawQuery = r.query.Encode()
	request.Header = r.header.Clone()
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return replyOf(response, body, r.query)
}

// compare sends a request to both servers, and compares their answers.
func (w *compareWorld) compare(r *comparedRequest) {
	user, i := w.users[r.user], 0
	if r.http1 {
		i = 1
	}
	got, err := r.ask(w.t.Context(), user.replica[i])
	want, wantErr := r.ask(w.t.Context(), user.direct[i])
	if err != nil || wantErr != nil {
		if (err == nil) != (wantErr == nil) {
			w.t.Errorf("%v:\n got %v\nwant %v", r, err, wantErr)
		}
		return
	}
	w.remember("", got.token)
	w.remember("", want.token)
	difference := got.differenceFrom(want)
	name := strconv.Itoa(want.code)
	if difference != "" {
		if name = r.isNamed(got, want); name == "" && w.answersEitherWay(r, got, user.direct[i]) {
			name = "either way"
		}
		if name == "" {
			w.t.Errorf("%v: %s\n got %d %v %.400q\nwant %d %v %.400q", r, difference,
				got.code, got.header, got.body, want.code, want.header, want.body)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[cmp.Or(name, "different")]++
}

// answersEitherWay reports whether the API server, asked again, answers as the replica did: what is wrong in two ways at
// once may get either error.
func (w *compareWorld) answersEitherWay(r *comparedRequest, got *reply, direct asker) bool {
	for range 3 {
		again, err := r.ask(w.t.Context(), direct)
		if err == nil && got.differenceFrom(again) == "" {
			return true
		}
	}
	return false
}

// isNamed returns which of the differences that docs/serve.md names this is; "" if it is none of them.
func (r *comparedRequest) isNamed(got, want *reply) string {
	watch := r.query.Has("watch")
	switch {
	case got.code == http.StatusBadRequest && strings.Contains(got.body, "Connection header"):
		return "named: Connection"
	case got.code == http.StatusUnauthorized && len(r.header["Authorization"]) > 0:
		return "named: anonymous"
	case got.code == http.StatusUnauthorized && want.code == http.StatusBadRequest && r.query.Has("timeout"):
		return "named: unauthenticated, and wrong besides"
	case got.code == http.StatusOK && want.code == http.StatusGone && !watch:
		return "named: a version that the API server has forgotten"
	case watch && strings.Contains(got.body, "too old resource version") && want.code == http.StatusOK:
		return "named: a journal that begins later"
	}
	return ""
}

// meaningful are the headers of an answer that clients act upon. Dates, ids of audits and priorities, and what says
// that an answer is old, are each server's own.
var meaningful = []string{"Content-Type", "Content-Encoding", "Vary", "Cache-Control", "Retry-After", "Allow",
	"Location",
	"Warning", "Www-Authenticate", "Upgrade", "X-Content-Type-Options"}

// differenceFrom says in what two replies differ; "" if they do not.
func (r *reply) differenceFrom(other *reply) string {
	switch {
	case r.code != other.code:
		return "codes"
	case !maps.EqualFunc(r.header, other.header, slices.Equal):
		return "headers"
	case r.body != other.body:
		i := 0
		for i < min(len(r.body), len(other.body)) && r.body[i] == other.body[i] {
			i++
		}
		return fmt.Sprintf("bodies, from byte %d: %.300q and %.300q", i, r.body[max(0, i-100):], other.body[max(0, i-100):])
	}
	return ""
}
