package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tidings/tidings/tidingstest"
)

// waitAtMost limits every wait of a script for the server.
const waitAtMost = 20 * time.Second

// cluster is an API server controlled by scripts, behind a proxy that serves discovery.
type cluster struct {
	server *tidingstest.Server
	front  *httptest.Server

	mu       sync.Mutex
	closed   string        // a namespace in which everything is forbidden
	stalling chan struct{} // not nil while discovery stalls; closed when that ends
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{server: tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})}
	c.server.AddResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "Widget")
	target, err := url.Parse(c.server.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	mux := http.NewServeMux()
	for path, answer := range discoveryAnswers() {
		mux.Handle(path+"/{$}", c.stall(answerWith(answer)))
		mux.Handle(path, c.stall(answerWith(answer)))
	}
	mux.HandleFunc("/apis/metrics.k8s.io/v1beta1", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
	})
	mux.Handle("/", c.guard(forward))
	c.front = httptest.NewServer(mux)
	t.Cleanup(func() {
		c.front.CloseClientConnections()
		c.front.Close()
	})
	return c
}

// guard rejects what is forbidden in one namespace.
func (c *cluster) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		closed := c.closed
		c.mu.Unlock()
		if closed == "" || !strings.Contains(r.URL.Path, "/namespaces/"+closed+"/") {
			next.ServeHTTP(w, r)
			return
		}
		status := apierrors.NewForbidden(schema.GroupResource{Resource: path.Base(r.URL.Path)}, "", fmt.Errorf("User %q cannot list in namespace %q", "eve", closed)).Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(status)
	})
}

// stall holds up discovery.
func (c *cluster) stall(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		stalling := c.stalling
		c.mu.Unlock()
		if stalling != nil {
			select {
			case <-stalling:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler) // returning would send a response, which a client that hangs up may still read
			}
		}
		next.ServeHTTP(w, r)
	})
}

func answerWith(answer any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client notices an incomplete response
	}
}

// discoveryAnswers returns the proxy's discovery documents by path.
func discoveryAnswers() map[string]any {
	group := func(name, version string) metav1.APIGroup {
		v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
		return metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
	}
	resource := func(name, singular, kind string, namespaced bool, short ...string) metav1.APIResource {
		return metav1.APIResource{Name: name, SingularName: singular, Kind: kind, Namespaced: namespaced, ShortNames: short, Verbs: metav1.Verbs{"get", "list", "watch"}}
	}
	list := func(groupVersion string, resources ...metav1.APIResource) metav1.APIResourceList {
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion, APIResources: resources}
	}
	bindings := resource("bindings", "binding", "Binding", true)
	bindings.Verbs = metav1.Verbs{"create"}
	return map[string]any{
		"/api": metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{group("apps", "v1"), group("example.com", "v1"), group("metrics.k8s.io", "v1beta1")}},
		"/api/v1": list("v1", bindings, resource("configmaps", "configmap", "ConfigMap", true, "cm"), resource("nodes", "node", "Node", false, "no"),
			resource("namespaces", "namespace", "Namespace", false, "ns"),
			resource("pods", "pod", "Pod", true, "po"), resource("events", "event", "Event", true, "ev"), resource("secrets", "secret", "Secret", true)),
		"/apis/apps/v1":        list("apps/v1", resource("deployments", "deployment", "Deployment", true, "deploy")),
		"/apis/example.com/v1": list("example.com/v1", resource("widgets", "widget", "Widget", true, "wd")),
	}
}

// setup gives a script the kubeconfig of its server, and keeps that of the machine away.
func (c *cluster) setup(env *testscript.Env) error {
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
clusters: [{name: test, cluster: {server: %q}}], contexts: [{name: test, context: {cluster: test, namespace: shop}}]}`, c.front.URL)
	file := filepath.Join(env.WorkDir, "kubeconfig")
	env.Setenv("KUBECONFIG", file)
	env.Setenv("TZ", "UTC")
	env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every program of a race build waits a second before it exits
	return os.WriteFile(file, []byte(content), 0o600)
}

// script is the command "server", with which a script controls the server:
//
//	server create|update|delete FILE...   the objects in the files
//	server watches N                      wait until N watches are open
//	server forbid RESOURCE                reject every list and watch of it
//	server forbid-in NAMESPACE            reject everything in this namespace
//	server stall                          stop answering discovery
//	server garble RESOURCE TEXT           answer every list and watch of it with this text
//	server cut                            break all connections
//	server compact                        drop the history, so that no watch can be resumed
//	server stop|start
func (c *cluster) script(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server COMMAND [ARGUMENT...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitAtMost)
	defer cancel()
	switch command, args := args[0], args[1:]; command {
	case "create", "update", "delete":
		act := map[string]func(*unstructured.Unstructured){
			"create": func(o *unstructured.Unstructured) { c.server.Create(o) },
			"update": func(o *unstructured.Unstructured) { c.server.Update(o) },
			"delete": func(o *unstructured.Unstructured) { c.server.Delete(o) },
		}[command]
		for _, file := range args {
			act(readObject(ts, file))
		}
	case "watches":
		ts.Check(c.server.WaitWatches(ctx, number(ts, args)))
	case "forbid":
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: args[0]}, "", fmt.Errorf("User %q cannot list resource %q", "eve", args[0]))
		c.server.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: args[0], Err: forbidden})
	case "forbid-in":
		c.mu.Lock()
		c.closed = args[0]
		c.mu.Unlock()
	case "stall":
		c.mu.Lock()
		c.stalling = make(chan struct{})
		c.mu.Unlock()
	case "garble":
		body := fmt.Appendf(nil, `{"kind":"List","items":[{"data":{"a":%q`, args[1])
		c.server.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: args[0], Answer: &tidingstest.Answer{Code: http.StatusOK, ContentType: "application/json", Body: body}})
	case "cut":
		c.server.BreakConnections()
	case "compact":
		c.server.Compact()
	case "stop":
		c.server.Stop()
	case "start":
		c.server.Start()
	default:
		ts.Fatalf("unknown: server %s", command)
	}
}

func number(ts *testscript.TestScript, args []string) int {
	n, err := strconv.Atoi(strings.Join(args, " "))
	ts.Check(err)
	return n
}

func readObject(ts *testscript.TestScript, file string) *unstructured.Unstructured {
	text, err := yaml.YAMLToJSON([]byte(ts.ReadFile(file)))
	ts.Check(err)
	o := &unstructured.Unstructured{}
	ts.Check(o.UnmarshalJSON(text))
	return o
}

// exits is the command "exits CODE PROGRAM [ARGUMENT...]": it runs the program and expects this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if want := number(ts, args[:1]); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// await is the command "await FILE REGEXP": it waits until the file has a match. It polls, because the output of a
// program in the background is only visible in a file.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE REGEXP")
	}
	want, err := regexp.Compile(args[1])
	ts.Check(err)
	for deadline := time.Now().Add(waitAtMost); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && want.Match(text) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s has no match for %q:\n%s", args[0], args[1], text)
		}
	}
}

// What differs between runs.
var (
	clocks = regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d{3}\b`)
	stamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uids   = regexp.MustCompile(`"uid":"[^"]+"`)
	delays = regexp.MustCompile(`next try in [0-9.ms]+`)
	ports  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// normal is the command "normal FILE": it prints the file, such as stdout, without what differs between runs.
func normal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: normal FILE")
	}
	text := ts.ReadFile(args[0])
	text = clocks.ReplaceAllString(text, "TIME")
	text = stamps.ReplaceAllString(text, "STAMP")
	text = uids.ReplaceAllString(text, `"uid":"UID"`)
	text = delays.ReplaceAllString(text, "next try in DELAY")
	text = ports.ReplaceAllString(text, "ADDRESS")
	_, err := fmt.Fprint(ts.Stdout(), text)
	ts.Check(err)
}
