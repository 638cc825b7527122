package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

// TestNewsOfARollout rolls out a new image on a real API server, among leases that are renewed, twenty events a
// second, a controller of a custom resource and two managers in a fight; and checks what each command says of it.
func TestNewsOfARollout(t *testing.T) {
	plane := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	c := newCity(t, plane)
	c.start("controller-manager", "--leader-elect=false", "--bind-address", "127.0.0.1:0", "--log-level", "error")
	c.prepare()

	const kinds = "deploy,rs,pods,leases,events,secrets,widgets.example.com"
	file := filepath.Join(t.TempDir(), "rollout.tidings")
	shown := c.start("tail", kinds, "--fields")
	all := c.start("tail", kinds, "--all", "-o", "json", "--record", file, "--max-changes", "0")
	live := c.start("timeline", "deploy/web", "--tree", "--fields")
	conditional := c.start("tail", "deploy", "--where", `change.name == "web" && change.fields.exists(f, f.path.endsWith(".image"))`)
	for _, r := range []*run{shown, all} {
		c.until("the tails are up to date", func() bool {
			return strings.Count(r.out.String()+r.err.String(), "up to date with") >= 7
		})
	}
	c.until("the others are up to date", func() bool {
		return strings.Contains(conditional.err.String(), "up to date with") &&
			strings.Contains(live.err.String(), "is followed from now on")
	})
	top := c.start("top", kinds, "--for", "5s", "-o", "json")
	stop := c.noise()
	c.rollOut()
	top.wait(t)
	c.until("the last step is shown", func() bool {
		return strings.Contains(all.out.String(), `"path":"status.updatedReplicas"`) && strings.Contains(shown.out.String(), "status.updatedReplicas") &&
			strings.Contains(live.out.String(), "status.updatedReplicas")
	})
	stop()
	for _, r := range []*run{shown, all, live, conditional} {
		r.end(t)
	}

	checkShown(t, shown.out.String(), all.out.String())
	checkFight(t, top.out.Bytes())
	if got := conditional.out.String(); strings.Count(got, "MODIFIED") != 1 || !strings.Contains(got, "web: image web:1 → web:2") {
		t.Errorf("with --where:\n%s", got)
	}
	checkStory(t, live.out.String())
	checkStory(t, c.output("timeline", "deploy/web", "--tree", "--from", file, "--fields"))
	if got := c.output("blame", "deploy/web"); !regexp.MustCompile(`(?m)^kubectl-set \d+s +image: web:2$`).MatchString(got) {
		t.Errorf("blame:\n%s", got)
	}
	blamed := c.output("blame", "deploy/web", "--from", file)
	if !regexp.MustCompile(`(?m)^kubectl-set \d+s +image: web:2   # set at \S+ by kubectl-set, was web:1$`).MatchString(blamed) {
		t.Errorf("blame of the recording:\n%s", blamed)
	}

	for _, args := range [][]string{
		{"blame", "secret/canary"}, {"blame", "secret/canary", "--from", file},
		{"blame", "secret/canary", "--from", file, "--at", "end"}, {"blame", "secret/canary", "--from", file, "-o", "json"},
		{"timeline", "secret/canary", "--from", file},
		{"diff", file, "--at", "start", "--at", "end", "--max-value", "0"},
		{"replay", file, "--speed", "max", "--show-initial", "--max-value", "0"},
		{"replay", file, "secrets", "--speed", "max", "--all", "--show-initial", "--max-value", "0", "--show-managed-fields", "--where", "new != null"},
		{"replay", file, "secrets", "--speed", "max", "--show-initial", "--max-value", "0", "-o", "json", "--show-objects"},
		{"replay", file, "secrets", "--speed", "max", "--where", "int(new.data.password) == 1"},
	} {
		if c.output(args...) == "" && args[len(args)-1] != "int(new.data.password) == 1" {
			t.Errorf("%v says nothing", args)
		}
	}
	c.checkCanaries(file)
}

// rolled are the objects that belong to the rollout.
var rolled = regexp.MustCompile(`^(deployments\.apps news/web|replicasets\.apps news/web-[12]|pods news/web-[12]-\w+)$`)

// ticking are the fields that tail hides on purpose.
var ticking = regexp.MustCompile(`(^|\.)(observedGeneration|lastUpdateTime|lastProbeTime|lastHeartbeatTime)$`)

// checkShown checks that the default output tells the rollout in fewer than 30 lines, and has every
// change of a spec or status that --all has.
func checkShown(t *testing.T, text, lines string) {
	t.Helper()
	var story []string
	blocks := map[string]string{} // by object
	object := ""
	for line := range strings.Lines(text) {
		if header := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d+ [A-Z]+ +(\S+ \S+)`).FindStringSubmatch(line); header != nil {
			object = header[1]
		}
		if rolled.MatchString(object) {
			story = append(story, line)
			blocks[object] += line
		}
		if strings.HasPrefix(object, "leases") {
			t.Errorf("a renewal is shown: %s", line)
		}
	}
	if n := len(story); n == 0 || n >= 30 {
		t.Errorf("the rollout takes %d lines:\n%s", n, strings.Join(story, ""))
	}
	changes := 0
	for line := range strings.Lines(lines) {
		var e struct {
			Kind, Type, Group, Resource, Namespace, Name string
			Changes                                      []struct {
				Path string
				New  any
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		object := strings.TrimSuffix(e.Resource+"."+e.Group, ".") + " " + e.Namespace + "/" + e.Name
		if e.Kind != "change" || !rolled.MatchString(object) {
			continue
		}
		if e.Type != "MODIFIED" && !strings.Contains(blocks[object], e.Type) {
			t.Errorf("%s %s is not shown", e.Type, object)
		}
		for _, change := range e.Changes {
			if ticking.MatchString(change.Path) || strings.HasPrefix(change.Path, "metadata.") {
				continue
			}
			changes++
			if !mentions(blocks[object], change.Path, change.New) {
				t.Errorf("%s of %s is not shown:\n%s", change.Path, object, blocks[object])
			}
		}
	}
	if changes < 8 {
		t.Errorf("--all has only %d changes of the rollout:\n%s", changes, lines)
	}
}

// mentions reports whether a text has a change: its path or, where tail puts it in words, the condition or container and its new value.
func mentions(text, path string, value any) bool {
	if strings.Contains(text, path+":") {
		return true
	}
	if path == "status.conditions" { // all of them are new
		for _, c := range value.([]any) {
			if name := fmt.Sprint(c.(map[string]any)["type"]); !strings.Contains(text, name+":") {
				return false
			}
		}
		return true
	}
	if key := regexp.MustCompile(`\[(?:type|name)=([^\]]+)\]`).FindStringSubmatch(path); key != nil {
		return strings.Contains(text, key[1]+": ") && (!strings.HasSuffix(path, ".image") || strings.Contains(text, fmt.Sprint(value)))
	}
	return false
}

func checkFight(t *testing.T, report []byte) {
	t.Helper()
	var got struct {
		Fights []struct {
			Object, Path string
			Managers     []string
		}
	}
	if err := json.Unmarshal(report, &got); err != nil {
		t.Fatalf("%v: %s", err, report)
	}
	for _, f := range got.Fights {
		if f.Object == "deployments.apps news/fought" && f.Path == "spec.replicas" && strings.Join(f.Managers, " ") == "autoscaler gitops" {
			return
		}
	}
	t.Errorf("the fight is not named: %+v", got.Fights)
}

// checkStory checks that a timeline tells the steps, those of one kind in order, and nothing of what does not belong to
// them. Each kind has a watch of its own; one may be behind the others.
func checkStory(t *testing.T, text string) {
	t.Helper()
	for _, steps := range [][]string{
		{`(?m)^\S+  Deployment web  web: image web:1 → web:2 by kubectl-set$`,
			`(?m)^\S+  Deployment web  .*status.updatedReplicas: 1.* by deployment-controller$`},
		{`(?m)^\S+    ReplicaSet web-2  created by deployment-controller: .*images=web:2`,
			`(?m)^\S+    ReplicaSet web-1  spec.replicas: 1 → 0 by deployment-controller`},
		{`(?m)^\S+      Pod web-2-\w+  created by \S+: phase=Pending images=web:2  ≈ ` +
			`(\S+ after|together with) the change of ReplicaSet web-2$`,
			`(?m)^\S+      Pod web-2-\w+  .*(Pending → Running|Ready: True).* by kubelet$`},
		{`(?m)^\S+    ReplicaSet web-2  created `, `(?m)^\S+      Pod web-2-\w+  created `},
		{`(?m)^\S+      Pod web-1-\w+  deleted`},
	} {
		rest := text
		for _, step := range steps {
			at := regexp.MustCompile(step).FindStringIndex(rest)
			if at == nil {
				t.Errorf("the timeline does not say %q in its place:\n%s", step, text)
				return
			}
			rest = rest[at[1]:]
		}
	}
	if strings.Contains(text, "fought") || strings.Contains(text, "Lease") || strings.Contains(text, "Widget") {
		t.Errorf("the timeline tells what does not belong to it:\n%s", text)
	}
}

// city is a cluster in which much happens.
type city struct {
	t       *testing.T
	plane   *controlplane.ControlPlane
	client  dynamic.Interface
	canary  []string
	mu      sync.Mutex
	outputs []*run
}

func newCity(t *testing.T, plane *controlplane.ControlPlane) *city {
	config := rest.CopyConfig(plane.Config())
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &city{t: t, plane: plane, client: client}
}

// run is a command that runs within the test.
type run struct {
	args     []string
	out, err buffer
	cancel   context.CancelFunc
	done     chan error
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string { return string(b.Bytes()) }

func (b *buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

// start starts a command; the test ends it.
func (c *city) start(args ...string) *run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{args: args, cancel: cancel, done: make(chan error, 1)}
	root := newRoot()
	flags := []string{"--kubeconfig", c.plane.Kubeconfig()}
	if args[0] != "controller-manager" {
		flags = append(flags, "-n", "news")
	}
	if args[0] == "replay" || args[0] == "diff" {
		flags = []string{"-n", "news"}
	}
	root.SetArgs(append(args, flags...))
	root.SetOut(&r.out)
	root.SetErr(&r.err)
	root.SilenceErrors, root.SilenceUsage = true, true
	go func() { r.done <- root.ExecuteContext(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		<-r.done
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outputs = append(c.outputs, r)
	return r
}

// wait waits for the end of a command by itself.
func (r *run) wait(t *testing.T) {
	t.Helper()
	err := <-r.done
	r.done <- err
	if err != nil {
		t.Errorf("%v: %v\n%s", r.args, err, r.err.String())
	}
}

func (r *run) end(t *testing.T) {
	t.Helper()
	r.cancel()
	r.wait(t)
}

func (c *city) output(args ...string) string {
	c.t.Helper()
	r := c.start(args...)
	r.wait(c.t)
	return r.out.String()
}

// until waits for something. It polls, because outputs and the objects of a server tell nobody.
func (c *city) until(what string, is func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(3 * waitAtMost)
	for !is() {
		if time.Now().After(deadline) {
			for _, r := range c.outputs {
				c.t.Logf("%v:\n%s%s", r.args, r.out.String(), r.err.String())
			}
			c.t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// resourceOf are the resources by the names that the test uses.
var resourceOf = map[string]schema.GroupVersionResource{
	"Deployment": {Group: "apps", Version: "v1", Resource: "deployments"}, "ReplicaSet": {Group: "apps", Version: "v1", Resource: "replicasets"},
	"Pod": {Version: "v1", Resource: "pods"}, "Secret": {Version: "v1", Resource: "secrets"}, "Event": {Version: "v1", Resource: "events"},
	"Lease": {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, "Namespace": {Version: "v1", Resource: "namespaces"},
	"Widget":                   {Group: "example.com", Version: "v1", Resource: "widgets"},
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

func (c *city) objects(kind string) dynamic.ResourceInterface {
	if kind == "Namespace" || kind == "CustomResourceDefinition" {
		return c.client.Resource(resourceOf[kind])
	}
	return c.client.Resource(resourceOf[kind]).Namespace("news")
}

func (c *city) create(manager, kind, text string) *unstructured.Unstructured {
	c.t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	o.SetAPIVersion(resourceOf[kind].GroupVersion().String())
	o.SetKind(kind)
	var made *unstructured.Unstructured
	c.until("there is "+text, func() (ok bool) {
		var err error
		made, err = c.objects(kind).Create(c.t.Context(), o, metav1.CreateOptions{FieldManager: manager})
		if err != nil && !apierrors.IsNotFound(err) { // a new custom resource is not offered at once
			c.t.Fatal(err)
		}
		return err == nil
	})
	return made
}

func (c *city) patch(manager, kind, name, patch string, sub ...string) error {
	_, err := c.objects(kind).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}, sub...)
	return err
}

func (c *city) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// pod waits for the pod of a ReplicaSet, and makes it ready as a kubelet does.
func (c *city) pod(set string) {
	c.t.Helper()
	name := ""
	c.until("a pod of "+set, func() bool {
		pods, err := c.objects("Pod").List(c.t.Context(), metav1.ListOptions{LabelSelector: "set=" + set})
		c.must(err)
		if len(pods.Items) == 1 {
			name = pods.Items[0].GetName()
		}
		return name != ""
	})
	c.must(c.patch("kubelet", "Pod", name, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "status"))
	c.until("a ready pod of "+set, func() bool {
		s, err := c.objects("ReplicaSet").Get(c.t.Context(), set, metav1.GetOptions{})
		c.must(err)
		ready, _, _ := unstructured.NestedInt64(s.Object, "status", "availableReplicas")
		return ready == 1
	})
}

const template = `"selector":{"matchLabels":{"app":"%[1]s","set":"%[2]s"}},"template":{"metadata":{"labels":{"app":"%[1]s","set":"%[2]s"}},"spec":{"containers":[{"name":"web","image":"web:%[3]s"}]}}`

func (c *city) replicaSet(number string, owner *unstructured.Unstructured) {
	name := "web-" + number
	c.create("deployment-controller", "ReplicaSet", fmt.Sprintf(`{"metadata":{"name":%q,"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":%q,"controller":true}]},
		"spec":{"replicas":1,`+fmt.Sprintf(template, "web", name, number)+`}}`, name, owner.GetUID()))
	c.pod(name)
}

// prepare makes what is there before the rollout.
func (c *city) prepare() {
	c.create("test", "Namespace", `{"metadata":{"name":"news"}}`)
	c.create("test", "CustomResourceDefinition", `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"widgets","singular":"widget","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	c.create("kubectl-create", "Widget", `{"metadata":{"name":"w"},"spec":{"size":1}}`)
	c.create("holder", "Lease", `{"metadata":{"name":"leader"},"spec":{"holderIdentity":"a"}}`)
	c.create("reporter", "Event", `{"metadata":{"name":"often","namespace":"news"},"involvedObject":{"kind":"Widget","name":"w","namespace":"news"},"reason":"Often","count":1}`)
	c.create("kubectl-create", "Deployment", `{"metadata":{"name":"fought"},"spec":{"replicas":1,`+fmt.Sprintf(template, "fought", "fought", "1")+`}}`)
	c.canary = append(c.canary, rand.Text())
	c.create("kubectl-create", "Secret", fmt.Sprintf(`{"metadata":{"name":"canary"},"stringData":{"password":%q}}`, c.canary[0]))
	web := c.create("kubectl-create", "Deployment", `{"metadata":{"name":"web"},"spec":{"replicas":1,`+fmt.Sprintf(template, "web", "web", "1")+`}}`)
	c.replicaSet("1", web)
}

// noise makes what is not about the rollout, until stop is called.
func (c *city) noise() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	every := func(pause time.Duration, act func(n int) error) {
		all.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for n := 2; ; n++ {
				if err := act(n); err != nil {
					c.t.Error(err)
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	every(50*time.Millisecond, func(n int) error {
		return c.patch("reporter", "Event", "often", fmt.Sprintf(`{"count":%d}`, n))
	})
	every(200*time.Millisecond, func(int) error {
		return c.patch("holder", "Lease", "leader", fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	})
	every(300*time.Millisecond, func(n int) error {
		return c.patch("widget-controller", "Widget", "w", fmt.Sprintf(`{"status":{"checked":%d}}`, n), "status")
	})
	every(300*time.Millisecond, func(n int) error {
		return c.patch([]string{"autoscaler", "gitops"}[n%2], "Deployment", "fought", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+3*(n%2)))
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// rollOut does what a person, the deployment controller and a kubelet do; the ReplicaSets are those of this project's controller.
func (c *city) rollOut() {
	c.must(c.patch("kubectl-set", "Deployment", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`))
	web, err := c.objects("Deployment").Get(c.t.Context(), "web", metav1.GetOptions{})
	c.must(err)
	c.replicaSet("2", web)
	c.must(c.patch("deployment-controller", "ReplicaSet", "web-1", `{"spec":{"replicas":0}}`))
	c.until("the old pod is gone", func() bool {
		pods, err := c.objects("Pod").List(c.t.Context(), metav1.ListOptions{LabelSelector: "set=web-1"})
		c.must(err)
		return len(pods.Items) == 0
	})
	c.canary = append(c.canary, rand.Text()+rand.Text()) // of another length: a recording has nothing else of a value
	c.must(c.patch("kubectl-edit", "Secret", "canary", fmt.Sprintf(`{"stringData":{"password":%q}}`, c.canary[1])))
	c.must(c.patch("deployment-controller", "Deployment", "web", `{"status":{"replicas":1,"updatedReplicas":1}}`, "status"))
}

// checkCanaries checks that no output and no file has a value of a Secret.
func (c *city) checkCanaries(file string) {
	c.t.Helper()
	texts := map[string]string{}
	for _, r := range c.outputs {
		texts[strings.Join(r.args, " ")] = r.out.String() + r.err.String()
	}
	recorded, err := os.ReadFile(file)
	c.must(err)
	texts[file] = string(recorded)
	for _, canary := range c.canary {
		for name, text := range texts {
			if strings.Contains(text, canary) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))) {
				c.t.Errorf("the value of a Secret is in: %s", name)
			}
		}
	}
	if !strings.Contains(texts[file], `"canary"`) {
		c.t.Error("the recording does not have the Secret")
	}
}
