package clients

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tidings/tidings/serve/internal/launch"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

const (
	namespace = "default"
	// mapCount is the number of config maps.
	mapCount = 30
)

// world is a control plane with config maps, and a replica in front of it.
type world struct {
	t       *testing.T
	admin   kubernetes.Interface
	config  *rest.Config // of a reader, at the replica
	direct  *rest.Config // of the same reader, at the API server
	replica *launch.Replica
}

func newWorld(t *testing.T) *world {
	t.Helper()
	plane := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	w := &world{t: t, admin: kubernetes.NewForConfigOrDie(plane.Config())}
	for i := range mapCount {
		w.check(w.create(i))
	}
	launcher, err := launch.New(t.Context(), plane.Kubeconfig())
	w.check(err)
	t.Cleanup(func() {
		if err := launcher.Close(); err != nil {
			t.Error(err)
		}
	})
	w.replica, err = launcher.Start(t.Context(), "--resources", "configmaps")
	w.check(err)
	t.Cleanup(w.replica.Kill)
	w.config = launcher.Config(w.replica.Address(), w.token())
	w.direct = rest.AnonymousClientConfig(plane.Config())
	w.direct.BearerToken = w.config.BearerToken
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(i int) error {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%02d", i)},
		Data: map[string]string{"i": fmt.Sprint(i)}}
	_, err := w.admin.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), o, metav1.CreateOptions{})
	return err
}

// token returns the token of a service account that may do everything.
func (w *world) token() string {
	w.t.Helper()
	ctx, meta := w.t.Context(), metav1.ObjectMeta{Name: "reader"}
	_, err := w.admin.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{})
	w.check(err)
	_, err = w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: meta.Name}},
	}, metav1.CreateOptions{})
	w.check(err)
	token, err := w.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, meta.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.check(err)
	return token.Status.Token
}

// answered returns how many requests the replica has answered from memory.
func (w *world) answered() (n int) {
	w.t.Helper()
	c, err := rest.HTTPClientFor(w.config)
	w.check(err)
	defer c.CloseIdleConnections()
	response, err := c.Do(request(w.t, w.config.Host+"/metrics"))
	w.check(err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	w.check(err)
	_, after, _ := strings.Cut(string(data), "\ntidings_serve_answered_total ")
	if _, err := fmt.Sscan(after, &n); err != nil {
		w.t.Fatalf("%v in %s", err, data)
	}
	return n
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestClients runs clients against a replica, which know nothing of it.
func TestClients(t *testing.T) {
	w := newWorld(t)
	t.Run("client-go with WatchList", func(t *testing.T) { w.clientGo(t, "true") })
	t.Run("client-go without WatchList", func(t *testing.T) { w.clientGo(t, "false") })
	t.Run("controller-runtime", w.controllerRuntime)
	t.Run("kubectl", w.kubectl)
	t.Run("Python", w.python)
	if n := w.answered(); n == 0 {
		t.Errorf("%d answers from memory", n)
	}
}

// clientGo runs an informer, with WatchList or without. The feature is read from the environment once in a process.
func (w *world) clientGo(t *testing.T, watchList string) {
	if os.Getenv("KUBE_FEATURE_WatchListClient") != watchList {
		w.rerun(t, watchList)
		return
	}
	w.inform(t, w.config)
}

// rerun runs the informer in a process with the feature on or off.
func (w *world) rerun(t *testing.T, watchList string) {
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInform$", "-test.v")
	command.Env = append(os.Environ(), "KUBE_FEATURE_WatchListClient="+watchList,
		kubeconfigVariable+"="+w.kubeconfig(t, w.config))
	text, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: TestInform") {
		t.Errorf("%v\n%s", err, text)
	}
}

// kubeconfigVariable is set in a process that TestClients starts.
const kubeconfigVariable = "TIDINGS_TEST_KUBECONFIG"

// TestInform runs an informer with the kubeconfig of TestClients.
func TestInform(t *testing.T) {
	file := os.Getenv(kubeconfigVariable)
	if file == "" {
		t.Skip("it is run by TestClients")
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	(&world{t: t}).inform(t, config)
}

// inform lists, watches and writes through one address.
func (w *world) inform(t *testing.T, config *rest.Config) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(c, 0)
	maps := factory.Core().V1().ConfigMaps()
	maps.Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	seen := func(value string) bool {
		o, err := maps.Lister().ConfigMaps(namespace).Get("map-00")
		return err == nil && o.Data["i"] == value
	}
	o, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, "map-00", metav1.GetOptions{})
	if err != nil || !seen(o.Data["i"]) {
		t.Fatalf("%v, %v", o, err)
	}
	value := fmt.Sprint(time.Now().UnixNano())
	o.Data["i"] = value
	if _, err := c.CoreV1().ConfigMaps(namespace).Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() bool { return seen(value) })
}

func eventually(ctx context.Context, t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("in vain")
		}
	}
}

// controllerRuntime runs controller-runtime's cache, which reads from the replica, and writes with its client.
func (w *world) controllerRuntime(t *testing.T) {
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cache.New(w.config, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache has not started")
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil || len(list.Items) < mapCount {
		t.Fatalf("%d, %v", len(list.Items), err)
	}
	writer, err := client.New(w.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := list.Items[len(list.Items)-1].DeepCopy()
	o.Labels = map[string]string{"written": "true"}
	if err := writer.Update(ctx, o); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() bool {
		var one corev1.ConfigMap
		return c.Get(ctx, client.ObjectKeyFromObject(o), &one) == nil && one.Labels["written"] == "true"
	})
}

// kubeconfig writes a kubeconfig.
func (w *world) kubeconfig(t *testing.T, c *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := clientcmdapi.NewConfig()
	content.Clusters["c"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData,
		CertificateAuthority: c.CAFile}
	content.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	content.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	content.CurrentContext = "x"
	w.check(clientcmd.WriteToFile(*content, file))
	return file
}

// readings are commands that print the same at the replica and at the API server.
var readings = [][]string{
	{"get", "configmaps", "-o", "yaml"}, {"get", "configmap", "map-03", "-o", "json"},
	{"get", "configmaps", "-o", "name", "--chunk-size", "7"},
	{"get", "configmaps", "-A", "-o", "jsonpath={.items[*].metadata.resourceVersion}"}, {"get", "configmap", "none"},
	{"get", "configmaps", "--field-selector", "metadata.name=map-04", "-o", "yaml"},
	{"get", "configmaps", "-l", "a!=b", "-o", "name"},
	{"api-resources", "--api-group", "apps", "-o", "name"}, {"auth", "can-i", "get", "configmaps"},
	{"get", "--raw", "/api/v1/namespaces/default/configmaps/map-05?resourceVersion=0"},
	{"describe", "configmap", "map-06"},
}

// kubectl reads, watches and writes with kubectl, at the replica and at the API server, and compares what it prints.
func (w *world) kubectl(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubectl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./kubectl")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	replica, direct := w.kubeconfig(t, w.config), w.kubeconfig(t, w.direct)
	command := func(kubeconfig string, args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), program,
			append([]string{"--kubeconfig", kubeconfig, "--cache-dir", t.TempDir()}, args...)...)
		c.Env = append(os.Environ(), "HOME="+t.TempDir())
		return c
	}
	run := func(kubeconfig string, args ...string) string {
		text, err := command(kubeconfig, args...).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, text)
		}
		return string(text)
	}
	for _, args := range readings {
		if got, want := run(replica, args...), run(direct, args...); got != want || got == "" {
			t.Errorf("kubectl %s:\n%s\nwant\n%s", strings.Join(args, " "), got, want)
		}
	}
	watch := command(replica, "get", "configmaps", "-w", "-o",
		"custom-columns=TYPE:.type,NAME:.object.metadata.name,I:.object.data.i", "--output-watch-events")
	out, err := watch.StdoutPipe()
	w.check(err)
	w.check(watch.Start())
	t.Cleanup(func() {
		_ = watch.Process.Kill()
		_ = watch.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	seen := func(want string) bool {
		for lines.Scan() {
			if strings.Join(strings.Fields(lines.Text()), " ") == want {
				return true
			}
		}
		return false
	}
	last := fmt.Sprintf("map-%02d", mapCount-1)
	if text := run(direct, "get", "configmap", last, "-o", "name"); text != "configmap/"+last+"\n" ||
		!seen(fmt.Sprintf("ADDED %s %d", last, mapCount-1)) {
		t.Fatal("kubectl get -w does not list", text)
	}
	text := run(replica, "create", "configmap", "created", "--from-literal=i=x")
	if text != "configmap/created created\n" {
		t.Error(text)
	}
	run(replica, "patch", "configmap", "created", "-p", `{"data":{"i":"y"}}`)
	run(replica, "delete", "configmap", "created")
	for _, want := range []string{"ADDED created x", "MODIFIED created y", "DELETED created y"} {
		if !seen(want) {
			t.Fatalf("not seen by kubectl get -w: %s", want)
		}
	}
}
