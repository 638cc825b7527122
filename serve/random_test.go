package serve

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

var requests = flag.Int("requests", 4000, "how many requests TestRandomRequests sends")

const (
	// testTTL is how long a replica remembers a review in this test, and testSlack how long a review may take.
	testTTL   = 200 * time.Millisecond
	testSlack = 2 * time.Second
	// inBatch is how many requests are sent between changes of objects.
	inBatch = 100
	// batchesPerRole is how many batches there are between changes of roles.
	batchesPerRole = 10
	randomUsers    = 12
	administrator  = "administrator"
)

var (
	randomNamespaces = []string{"default", "kube-system", "team"}
	randomResources  = []string{"configmaps", "secrets", "pods"}
	randomNames      = []string{"a", "b", "c", "d"}
)

// mark is in every object, in all encodings, and tells which object it is.
var mark = regexp.MustCompile(`confidential:([a-z]+):([a-z-]+):([a-z]+):`)

// roleRule allows verbs on a resource, in a namespace or in all, for some names or for all.
type roleRule struct {
	verbs, names        []string
	resource, namespace string
}

func (r roleRule) allows(a *authorizationv1.ResourceAttributes) bool {
	return slices.Contains(r.verbs, a.Verb) && r.resource == a.Resource &&
		(r.namespace == "" || r.namespace == a.Namespace) &&
		(len(r.names) == 0 || slices.Contains(r.names, a.Name)) && a.Subresource == "" && a.Group == ""
}

// role is what a user may do from a time on.
type role struct {
	from  time.Time
	rules []roleRule
}

// roles is the model of who may do what, and when.
type roles struct {
	mu    sync.Mutex // guards users
	users map[string][]role
}

func (r *roles) allowedBy(rules []roleRule, a *authorizationv1.ResourceAttributes) bool {
	return slices.ContainsFunc(rules, func(rule roleRule) bool { return rule.allows(a) })
}

// allow says what is allowed now.
func (r *roles) allow(spec authorizationv1.SubjectAccessReviewSpec) bool {
	always, _ := r.between(spec, time.Now(), time.Now())
	return always
}

// between says whether something was allowed always, and at some time, between two times.
func (r *roles) between(spec authorizationv1.SubjectAccessReviewSpec, from, to time.Time) (always, sometimes bool) {
	if spec.User == administrator {
		return true, true
	}
	if spec.ResourceAttributes == nil {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	history := r.users[spec.User]
	always = len(history) > 0
	for i, one := range history {
		if one.from.After(to) || i+1 < len(history) && history[i+1].from.Before(from) {
			continue
		}
		allowed := r.allowedBy(one.rules, spec.ResourceAttributes)
		always, sometimes = always && allowed, sometimes || allowed
	}
	return always, sometimes
}

func (r *roles) change(random *rand.Rand, user string) {
	one := role{from: time.Now()}
	for range random.IntN(4) {
		rule := roleRule{resource: pick(random, randomResources),
			verbs: []string{pick(random, []string{"get", "list", "watch"})}}
		if random.IntN(3) > 0 {
			rule.verbs = []string{"get", "list", "watch"}
		}
		if random.IntN(2) > 0 {
			rule.namespace = pick(random, randomNamespaces)
		}
		if random.IntN(3) == 0 {
			rule.names = []string{pick(random, randomNames)}
		}
		one.rules = append(one.rules, rule)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users[user] = append(r.users[user], one)
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// randomWorld is a server with objects that tell what they are, a replica in front of it, and users with roles.
type randomWorld struct {
	*fixture
	t       *testing.T
	roles   *roles
	logged  *syncBuffer
	clients map[string]*http.Client // by user
	given   counts                  // what the requests got

	mu     sync.Mutex // guards tokens
	tokens []string   // continue tokens that any user got
}

type counts struct {
	mu sync.Mutex // guards by
	by map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[what]++
}

// syncBuffer is a buffer for a logger.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestRandomRequests sends requests of users with random roles, which change. No answer has an object that the API
// server would not give for the same request within the seconds for which a review is remembered, and none is refused
// that it would have allowed all that time. Answers without such doubt are those of the API server. No Secret's value
// is in a log, a metric or a page.
func TestRandomRequests(t *testing.T) {
	random := testseed.Rand(t)
	logged := &syncBuffer{}
	w := &randomWorld{t: t, roles: &roles{users: map[string][]role{}}, logged: logged,
		clients: map[string]*http.Client{}, given: counts{by: map[string]int{}}}
	w.fixture = newReviewed(t, &reviewer{allow: w.roles.allow, enforce: true}, 1, tidingstest.ServerOptions{}, Options{
		Resources: []string{"configmaps", "secrets",
			"pods"}, ServeSecrets: true, Logger: newLogger(logged), reviewTTL: testTTL,
	})
	for _, resource := range randomResources {
		for _, namespace := range randomNamespaces {
			for _, name := range randomNames {
				w.Create(marked(resource, namespace, name))
			}
		}
	}
	users := []string{administrator}
	for i := range randomUsers {
		users = append(users, "user-"+strconv.Itoa(i))
	}
	for _, user := range users {
		client, err := rest.HTTPClientFor(w.replicas[0].config(as(w.config, user)))
		if err != nil {
			t.Fatal(err)
		}
		w.clients[user] = client
	}
	for batch := range *requests / inBatch {
		if batch%batchesPerRole == 0 {
			for _, user := range users[1:] {
				w.roles.change(random, user)
			}
		}
		w.changeSome(random)
		w.syncedAll(t)
		var work sync.WaitGroup
		for range 4 {
			mine := rand.New(rand.NewPCG(random.Uint64(), 0))
			work.Go(func() {
				for range inBatch / 4 {
					w.request(mine, pick(mine, users))
				}
			})
		}
		work.Wait()
		if t.Failed() {
			return
		}
	}
	for _, path := range []string{"/metrics", watchesPath, "/readyz?verbose"} {
		_, body := answerTo(t, w.replicas[0].config(as(w.config, administrator)), path, nil)
		if strings.Contains(body, "confidential") {
			t.Errorf("%s has a value: %s", path, body)
		}
	}
	w.replicas[0].stop()
	if strings.Contains(logged.String(), "confidential") {
		t.Error("a value is in the log")
	}
	t.Logf("%v", w.given.by)
	for _, what := range []string{"objects", "200", "403", "404", "doubt"} {
		if w.given.by[what] == 0 {
			t.Errorf("never seen: %s", what)
		}
	}
}

func marked(resource, namespace, name string) object.Object {
	text := fmt.Sprintf("confidential:%s:%s:%s:", resource, namespace, name)
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Annotations: map[string]string{"mark": text}, Labels: map[string]string{"name": name},
	}
	switch resource {
	case "configmaps":
		return &corev1.ConfigMap{ObjectMeta: meta}
	case "secrets":
		return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte(text)}}
	default:
		return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "node-" + name}}
	}
}

// changeSome deletes, creates or updates an object.
func (w *randomWorld) changeSome(random *rand.Rand) {
	resource, namespace, name := pick(random, randomResources), pick(random, randomNamespaces), pick(random,
		randomNames)
	o := marked(resource, namespace, name)
	versions := w.Versions(corev1.SchemeGroupVersion.WithResource(resource))
	_, exists := versions[object.Key{Namespace: namespace, Name: name}]
	switch {
	case !exists:
		w.Create(o)
	case random.IntN(2) == 0:
		w.Delete(o)
	default:
		w.Update(o)
	}
}

// syncedAll waits until the replica has what the server has, of all resources.
func (w *randomWorld) syncedAll(t *testing.T) {
	t.Helper()
	for _, r := range w.replicas[0].resources {
		w.SendBookmarks(corev1.SchemeGroupVersion.WithResource(r.Name))
		eventually(t, func() bool { return replica.Format(r.Collection.Stats().Version) == w.ResourceVersion() })
	}
}

// request sends a random request to the replica and, if it asks for what is known, to the server.
func (w *randomWorld) request(random *rand.Rand, user string) {
	path, header := w.randomRequest(random)
	began := time.Now()
	code, body := w.send(w.clients[user], w.replicas[0].http.URL+path, header)
	ended := time.Now()
	if code == 0 {
		return
	}
	w.remember(body)
	spec, err := w.specOf(path, user, header)
	if err != nil {
		return
	}
	always, sometimes := w.roles.between(spec, began.Add(-testTTL-testSlack), ended)
	w.given.add(strconv.Itoa(code))
	if always != sometimes {
		w.given.add("doubt")
	}
	marks := mark.FindAllStringSubmatch(body, -1)
	if len(marks) > 0 {
		w.given.add("objects")
	}
	describe := func() string { return fmt.Sprintf("%s: GET %s %v: %d %.300q", user, path, header, code, body) }
	a := spec.ResourceAttributes
	for _, m := range marks {
		inScope := a != nil && m[1] == a.Resource && (a.Namespace == "" || m[2] == a.Namespace) &&
			(a.Name == "" || m[3] == a.Name)
		if !sometimes || !inScope {
			w.t.Errorf("%s got %s", describe(), m[0])
		}
	}
	if always && code == http.StatusForbidden || !sometimes && code == http.StatusOK {
		w.t.Errorf("%s, though always allowed: %v, sometimes: %v", describe(), always, sometimes)
	}
	if always == sometimes && strings.Contains(path, "resourceVersion=0") && !strings.Contains(path, "watch") {
		w.compare(user, path, header, code, marks, describe)
	}
}

// compare compares an answer with that of the server.
func (w *randomWorld) compare(
	user, path string, header http.Header, code int, marks [][]string, describe func() string,
) {
	request := header.Clone()
	request.Set("Authorization", "Bearer "+user)
	wantCode, wantBody := w.send(http.DefaultClient, w.config.Host+path, request)
	want := mark.FindAllStringSubmatch(wantBody, -1)
	sortMarks := func(m [][]string) string {
		var all []string
		for _, one := range m {
			all = append(all, one[0])
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	if code != wantCode || sortMarks(marks) != sortMarks(want) {
		w.t.Errorf("%s; the server: %d %s", describe(), wantCode, sortMarks(want))
	}
	w.given.add("compared")
}

// specOf returns what a request has to be allowed.
func (w *randomWorld) specOf(path, user string, header http.Header) (authorizationv1.SubjectAccessReviewSpec, error) {
	r, err := http.NewRequest(http.MethodGet, w.config.Host+path, nil)
	if err != nil {
		return authorizationv1.SubjectAccessReviewSpec{}, err
	}
	r.Header = header.Clone()
	r.Header.Set("Authorization", "Bearer "+user)
	return specOf(r), nil
}

// remember keeps continue tokens, for whoever asks next.
func (w *randomWorld) remember(body string) {
	_, after, ok := strings.Cut(body, `"continue":"`)
	if token, _, closed := strings.Cut(after, `"`); ok && closed && token != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tokens = append(w.tokens, token)
	}
}

func (w *randomWorld) token(random *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tokens) == 0 {
		return "none"
	}
	return pick(random, w.tokens)
}

func (w *randomWorld) randomRequest(random *rand.Rand) (path string, header http.Header) {
	resource, namespace, name := pick(random, randomResources), pick(random, randomNamespaces), pick(random,
		append(randomNames, "none"))
	path = pick(random, []string{
		"/api/v1/" + resource, "/api/v1/namespaces/" + namespace + "/" + resource, "/api/v1/namespaces/" + namespace +
			"/" + resource + "/" + name,
	})
	query := url.Values{}
	isOne := strings.HasSuffix(path, "/"+name)
	if random.IntN(10) > 0 {
		query.Set("resourceVersion", pick(random, []string{"0", "0", "0", "1", w.ResourceVersion()}))
	}
	set := func(chance int, key string, values ...string) {
		if random.IntN(chance) == 0 {
			query.Set(key, pick(random, values))
		}
	}
	if !isOne {
		set(4, "fieldSelector", "metadata.name="+name, "metadata.namespace="+namespace, "metadata.name!="+name,
			"metadata.name="+name+",metadata.name=a")
		set(4, "labelSelector", "name="+name, "name in (a,b)", "!name")
		set(4, "limit", "1", "2")
		if random.IntN(10) == 0 {
			query.Set("continue", w.token(random))
			query.Del("resourceVersion")
		}
		set(12, "watch", "true")
		if query.Has("watch") {
			query.Del("limit")
			query.Del("continue")
		}
	}
	header = http.Header{}
	header.Set("Accept", pick(random, []string{
		"application/json", "application/vnd.kubernetes.protobuf,application/json", "application/yaml",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
	}))
	if random.IntN(20) == 0 {
		header.Set("X-Remote-User", administrator)
		header.Set("X-Remote-Group", "system:masters")
	}
	return path + "?" + query.Encode(), header
}

// send sends a request, and reads what comes within a moment. The code is 0 if there was no answer.
func (w *randomWorld) send(client *http.Client, url string, header http.Header) (code int, body string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		w.t.Errorf("%s: %v", url, err)
		return 0, ""
	}
	defer response.Body.Close()
	if strings.Contains(url, "watch=") && response.StatusCode == http.StatusOK {
		time.AfterFunc(50*time.Millisecond, cancel)
	}
	data, _ := io.ReadAll(response.Body) // a watch is broken off
	return response.StatusCode, string(data)
}
