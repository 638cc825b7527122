package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest"

	corev1 "k8s.io/api/core/v1"
)

// TestInformersGoUnchanged runs client-go's informers and ours against a replica, and counts what reaches the server.
func TestInformersGoUnchanged(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	for i := range 600 { // more than probeFrom
		f.Create(configMap(fmt.Sprintf("map-%03d", i), "a"))
	}
	f.synced(t)
	lists, watches := f.Count(tidingstest.List), f.Count(tidingstest.WatchList)
	ctx, cancel := context.WithCancel(t.Context())
	config := f.replicas[0].config(as(f.config, "user"))
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"

	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	theirs := factory.Core().V1().ConfigMaps()
	theirs.Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	ours, err := tidings.NewFactory(config, tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	informer, err := tidings.Informer[*corev1.ConfigMap](ours, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer ours.Shutdown(context.WithoutCancel(ctx))
	if err := informer.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	factory.WaitForCacheSync(ctx.Done())
	f.Update(configMap("map-000", "b"))
	eventually(t, func() bool {
		o, err := theirs.Lister().ConfigMaps("default").Get("map-000")
		mine, ok := informer.Lister().Namespace("default").Get("map-000")
		return err == nil && o.Labels["half"] == "b" && ok && mine.Labels["half"] == "b"
	})
	if n := f.Count(tidingstest.WatchList) - watches; n != 0 {
		t.Errorf("%d WatchLists reached the server", n)
	}
	for _, r := range f.Requests(tidingstest.List)[lists:] {
		if r.Query.Get("limit") != "1" {
			t.Errorf("a list reached the server: %v", r.Query)
		}
	}
}

// TestCustomResources serves a custom resource once it exists, in JSON and as metadata, and answers 404 once it is
// gone.
func TestCustomResources(t *testing.T) {
	for _, budget := range []int64{0, budget} {
		t.Run(fmt.Sprint("budget=", budget), func(t *testing.T) { testCustomResources(t, budget) })
	}
}

func testCustomResources(t *testing.T, budget int64) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Resources: []string{"configmaps"}})
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	r := startReplicaWithout(t, Options{Config: f.config, Resources: []string{"widgets.example.com"},
		MemoryBudget: budget})
	f.replicas[0] = r
	config := r.config(as(f.config, "user"))
	client := dynamic.NewForConfigOrDie(config).Resource(widgets)
	cached := metav1.ListOptions{ResourceVersion: "0"}
	if _, err := client.List(t.Context(), cached); err == nil {
		t.Error("a resource that does not exist was listed")
	}
	f.AddResource(widgets, "Widget")
	w := newWidget("w", widgets)
	f.Create(w)
	eventually(t, func() bool { _, err := r.resources[0].Ready(); return err == nil })
	before := r.counts.answered.Load()
	list, err := client.List(t.Context(), cached)
	if err != nil || len(list.Items) != 1 || list.Items[0].GetKind() != "Widget" {
		t.Errorf("%v, %v", list, err)
	}
	o, err := client.Namespace("default").Get(t.Context(), "w", metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || o.Object["spec"].(map[string]any)["n"] != int64(7) {
		t.Errorf("%v, %v", o, err)
	}
	m, err := metadata.NewForConfigOrDie(config).Resource(widgets).List(t.Context(), cached)
	if err != nil || len(m.Items) != 1 || m.Items[0].Name != "w" {
		t.Errorf("%v, %v", m, err)
	}
	if n := r.counts.answered.Load() - before; n != 3 {
		t.Errorf("%d answers from memory", n)
	}
	f.RemoveResource(widgets)
	f.BreakConnections()
	eventually(t, func() bool {
		_, err := client.List(t.Context(), cached)
		return apierrors.IsNotFound(err)
	})
	eventually(t, func() bool { code, _ := answerTo(t, config, "/readyz", nil); return code == http.StatusOK })

	f.AddCustomResource(tidingstest.CustomResource{Resource: widgets, Kind: "Gadget", ClusterScoped: true})
	gadget := newWidget("g", widgets)
	gadget.SetNamespace("")
	gadget.SetKind("Gadget")
	f.Create(gadget)
	eventually(t, func() bool { _, err := r.resources[0].Ready(); return err == nil })
	before = r.counts.answered.Load()
	code, text := answerTo(t, config, "/apis/example.com/v1/widgets?resourceVersion=0", nil)
	if code != http.StatusOK || !strings.Contains(text, `"kind":"GadgetList"`) ||
		!strings.Contains(text, `"name":"g"`) {
		t.Errorf("%d %s", code, text)
	}
	if _, err := client.Get(t.Context(), "g", metav1.GetOptions{ResourceVersion: "0"}); err != nil {
		t.Error(err)
	}
	if n := r.counts.answered.Load() - before; n != 2 {
		t.Errorf("%d answers from memory after the resource came back", n)
	}
}

// TestSlowWatcherIsCut has a client that does not read.
func TestSlowWatcherIsCut(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{WriteTimeout: 200 * time.Millisecond})
	f.Create(configMap("x", "a"))
	f.synced(t)
	r := f.replicas[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, err := kubernetes.NewForConfigOrDie(r.config(as(f.config, "user"))).CoreV1().RESTClient().Get().
		AbsPath("/api/v1/configmaps").Param("watch", "true").Param("resourceVersion", "0").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	big := configMap("x", "a")
	big.Data = map[string]string{"text": string(make([]byte, 200<<10))}
	for i := 0; r.counts.cut.Load() == 0 && i < 300; i++ {
		big.Labels["half"] = fmt.Sprint(i)
		f.Update(big)
		time.Sleep(5 * time.Millisecond)
	}
	eventually(t, func() bool { return r.counts.cut.Load() == 1 && len(r.watches.list()) == 0 })
}
