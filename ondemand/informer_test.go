package ondemand_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/tidingstest"
)

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
		Data:       map[string][]byte{"value": []byte(value)},
	}
}

func keyOf(name string) object.Key { return object.Key{Namespace: "default", Name: name} }

// start returns an informer over the server that has synced.
func start[T object.Object](
	t testing.TB,
	server *tidingstest.Server,
	scope tidings.Scope,
	opts ondemand.Options,
) *ondemand.Informer[T] {
	t.Helper()
	inf := begin[T](t, server, scope, opts)
	if err := inf.Metadata().WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return inf
}

// begin is start without waiting for the sync.
func begin[T object.Object](
	t testing.TB,
	server *tidingstest.Server,
	scope tidings.Scope,
	opts ondemand.Options,
) *ondemand.Informer[T] {
	t.Helper()
	factory, err := tidings.NewFactory(server.Config(), tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inf, err := ondemand.New[T](factory, scope, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(inf.Stop(context.Background()), factory.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
		factory.Client().CloseIdleConnections()
	})
	if err := factory.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return inf
}

func value(s *corev1.Secret) string { return string(s.Data["value"]) }

func mustGet(t *testing.T, inf *ondemand.Informer[*corev1.Secret], name, want string) {
	t.Helper()
	got, err := inf.Get(t.Context(), keyOf(name))
	if err != nil || value(got) != want {
		t.Fatalf("Get(%s): %v, %v; want %s", name, got, err, want)
	}
}

func TestOneRequestForEachVersion(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for i := range 100 {
		server.Create(secret(fmt.Sprint(i), fmt.Sprint("v", i)))
	}
	inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
	for range 10 {
		for i := range 20 {
			mustGet(t, inf, fmt.Sprint(i), fmt.Sprint("v", i))
		}
	}
	if got := server.Count(tidingstest.Get); got != 20 {
		t.Errorf("%d requests for 20 objects", got)
	}
	version := server.Update(secret("3", "new"))
	if err := inf.Metadata().WaitForVersion(t.Context(), "default", version); err != nil {
		t.Fatal(err)
	}
	mustGet(t, inf, "3", "new")
	mustGet(t, inf, "3", "new")
	if got := server.Count(tidingstest.Get); got != 21 {
		t.Errorf("%d requests, want 21", got)
	}
	if _, err := inf.Get(t.Context(), keyOf("none")); !apierrors.IsNotFound(err) ||
		server.Count(tidingstest.Get) != 21 {
		t.Errorf("absent: %v", err)
	}
}

// behind makes the watch of the metadata late: it is stalled until the server breaks the connections.
func behind(t *testing.T, server *tidingstest.Server) {
	t.Helper()
	server.InjectAlways(tidingstest.Watch, tidingstest.Fault{HangUp: true})
	server.InjectAlways(tidingstest.WatchList, tidingstest.Fault{HangUp: true})
	server.InjectAlways(tidingstest.List, tidingstest.Fault{HangUp: true})
	server.BreakConnections()
}

func TestNewerThanMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Load(secret("a", "old"), secret("b", "old"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		behind(t, server)
		synctest.Wait()
		server.Update(secret("a", "new"))
		server.Delete(secret("b", ""))
		for range 2 { // the body is held although it is newer
			o, err := inf.Read(t.Context(), keyOf("a"))
			if err != nil || !o.Newer() || value(o.Body) != "new" ||
				o.Metadata.ResourceVersion == o.Body.ResourceVersion {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		if _, err := inf.Get(t.Context(), keyOf("b")); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: %v", err)
		}
		list, err := inf.List(t.Context(), ondemand.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Vanished != 1 || list.Newer != 1 {
			t.Errorf("list: %+v, %v", list, err)
		}
		server.ClearFaults()
	})
}

func TestOlderAnswerIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("a", "old"))
		version := server.Update(secret("a", "new"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		stale := tidingstest.Fault{Answer: &tidingstest.Answer{Code: 200, ContentType: "application/json", Body: []byte(
			`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"default","name":"a","resourceVersion":"0"},"data":{}}`,
		)}}
		server.Inject(tidingstest.Get, stale, stale)
		o, err := inf.Read(t.Context(), keyOf("a"))
		if err != nil || o.Body.ResourceVersion != version || o.Newer() || server.Count(tidingstest.Get) != 3 {
			t.Errorf("%v, %v after %d requests", o, err, server.Count(tidingstest.Get))
		}
		server.InjectAlways(tidingstest.Get, stale)
		server.Update(secret("a", "newer"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := inf.Get(ctx, keyOf("a")); err == nil || !strings.Contains(err.Error(), "a") ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("server that stays behind: %v", err)
		}
	})
}

func TestOneRequestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("a", "v"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		server.InjectAlways(tidingstest.Get, tidingstest.Fault{Delay: time.Second})
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := inf.Get(first, keyOf("a")); !errors.Is(err, context.Canceled) {
				t.Errorf("the canceled caller got %v", err)
			}
		})
		synctest.Wait()
		for range 50 {
			wg.Go(func() { mustGet(t, inf, "a", "v") })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if n := server.Count(tidingstest.Get); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestStopEndsRequests: a request that hangs ends with the informer, and its caller learns why.
func TestStopEndsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("a", "v"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		server.InjectAlways(tidingstest.Get, tidingstest.Fault{Delay: time.Hour})
		got := make(chan error, 1)
		go func() {
			_, err := inf.Get(context.Background(), keyOf("a"))
			got <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err == nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestMetadataThatCannotBeDecoded: the object is there, and an error says so; others are read as ever.
func TestMetadataThatCannotBeDecoded(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{NoWatchList: true})
	version := server.Create(secret("good", "v"))
	server.InjectAlways(tidingstest.List, tidingstest.Fault{Answer: &tidingstest.Answer{Code: 200,
		ContentType: "application/json", Body: fmt.Appendf(nil, `{"kind":"PartialObjectMetadataList",
		"apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":%q},"items":[
		{"metadata":{"namespace":"default","name":"bad","uid":"u","resourceVersion":"1","labels":7}},
		{"metadata":{"namespace":"default","name":"good","uid":"v","resourceVersion":%q}}]}`, version, version)}})
	inf := begin[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
	mustGet(t, inf, "good", "v")
	_, err := inf.Get(t.Context(), keyOf("bad"))
	if !errors.Is(err, tidings.ErrSkipped) || apierrors.IsNotFound(err) {
		t.Errorf("of what cannot be decoded: %v", err)
	}
	if _, err := inf.Get(t.Context(), keyOf("none")); !apierrors.IsNotFound(err) {
		t.Errorf("of what does not exist: %v", err)
	}
	if n := server.Count(tidingstest.Get); n != 1 {
		t.Errorf("%d requests for bodies", n)
	}
}

func TestServerAsksToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("a", "v"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		server.Inject(tidingstest.Get, tidingstest.Fault{Err: apierrors.NewTooManyRequests("busy", 7)})
		began := time.Now()
		mustGet(t, inf, "a", "v")
		if took := time.Since(began); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("asked again after %v, want 7s", took)
		}
	})
}

func TestMissingPermissionIsNamed(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.Create(secret("a", "v"))
	inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
	secrets := schema.GroupResource{Resource: "secrets"}
	server.Inject(tidingstest.Get, tidingstest.Fault{Err: apierrors.NewForbidden(secrets, "a", errors.New("no"))})
	_, err := inf.Get(t.Context(), keyOf("a"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `verb get on secrets in namespace "default"`) {
		t.Errorf("no get: %v", err)
	}
}

func TestListMakesOneRequestWhereThatIsCheaper(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for i := range 40 {
		s := secret(fmt.Sprintf("%02d", i), fmt.Sprint("v", i))
		s.Labels["shard"] = fmt.Sprint(i / 30)
		server.Create(s)
	}
	inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
	lists := server.Count(tidingstest.List)
	selector := labels.SelectorFromSet(labels.Set{"shard": "0"})
	list, err := inf.List(t.Context(), ondemand.ListOptions{Namespace: "default", Labels: selector})
	if err != nil || len(list.Items) != 30 || value(list.Items[29]) != "v29" || list.Vanished+list.Newer != 0 {
		t.Fatalf("%d items, %v", len(list.Items), err)
	}
	if server.Count(tidingstest.List) != lists+1 || server.Count(tidingstest.Get) != 0 {
		t.Errorf("%d lists, %d gets", server.Count(tidingstest.List)-lists, server.Count(tidingstest.Get))
	}
	if list, err = inf.List(t.Context(), ondemand.ListOptions{}); err != nil || len(list.Items) != 40 {
		t.Fatalf("%d items, %v", len(list.Items), err)
	}
	if l, g := server.Count(tidingstest.List)-lists, server.Count(tidingstest.Get); l != 2 || g != 0 {
		t.Errorf("10 of 40 missing: %d lists, %d gets", l, g)
	}
	server.Update(secret("07", "new"))
	if err := inf.Metadata().WaitForVersion(t.Context(), "default", server.ResourceVersion()); err != nil {
		t.Fatal(err)
	}
	if _, err = inf.List(t.Context(), ondemand.ListOptions{}); err != nil || server.Count(tidingstest.Get) != 1 {
		t.Errorf("one missing: %d gets, %v", server.Count(tidingstest.Get), err)
	}
}

func TestBodiesOfAnIndex(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for i := range 20 {
		server.Create(secret(fmt.Sprintf("%02d", i), fmt.Sprint("v", i)))
	}
	inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{Concurrency: 2})
	odd := inf.Metadata().AddIndex("odd", func(m *metav1.PartialObjectMetadata) []string {
		return []string{fmt.Sprint(m.Name[1] % 2)}
	})
	list, err := inf.Bodies(t.Context(), odd.All("1"))
	if err != nil || len(list.Items) != 10 || value(list.Items[0]) != "v1" || server.Count(tidingstest.Get) != 10 {
		t.Errorf("%d items, %d gets, %v", len(list.Items), server.Count(tidingstest.Get), err)
	}
	server.InjectAlways(tidingstest.Get, tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("broken"))})
	if _, err := inf.Bodies(t.Context(), inf.Metadata().Lister().All()); !apierrors.IsInternalError(err) {
		t.Errorf("a failed request: %v", err)
	}
}

func TestUnusedAndTooManyBodiesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range 4 {
			server.Create(secret(fmt.Sprint(i), strings.Repeat("x", 10_000)))
		}
		inf := start[*corev1.Secret](
			t,
			server,
			tidings.Scope{},
			ondemand.Options{MaxBytes: 35_000, KeepFor: time.Minute},
		)
		get := func(name string, requests int) {
			t.Helper()
			if _, err := inf.Get(t.Context(), keyOf(name)); err != nil || server.Count(tidingstest.Get) != requests {
				t.Fatalf("%d requests, want %d: %v", server.Count(tidingstest.Get), requests, err)
			}
		}
		get("0", 1)
		get("1", 2)
		get("2", 3)
		get("0", 3)
		get("3", 4) // drops 1
		get("0", 4)
		get("1", 5) // drops 2
		time.Sleep(59 * time.Second)
		get("0", 5)
		time.Sleep(59 * time.Second) // drops all but 0
		get("0", 5)
		get("1", 6)
		time.Sleep(61 * time.Second)
		get("0", 7)
	})
}

func TestUnstructuredAndBadInput(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	server.AddResource(widgets, "Widget")
	server.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": "a"}, "spec": map[string]any{"size": int64(3)},
	}})
	inf := start[*unstructured.Unstructured](t, server, tidings.Scope{Resource: widgets}, ondemand.Options{})
	got, err := inf.Get(t.Context(), keyOf("a"))
	if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); err != nil || size != 3 ||
		got.GetKind() != "Widget" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ondemand.New[*corev1.Secret](tidings.NewSourceFactory(tidings.Options{}), tidings.Scope{}, ondemand.Options{}); err == nil {
		t.Error("no error without an API server")
	}
	factory, err := tidings.NewFactory(server.Config(), tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ondemand.New[*unstructured.Unstructured](factory, tidings.Scope{}, ondemand.Options{}); err == nil ||
		!strings.Contains(err.Error(), "Scope.Resource") {
		t.Errorf("without a resource: %v", err)
	}
	if _, err := ondemand.New[*corev1.Secret](factory, tidings.Scope{}, ondemand.Options{MaxBytes: -1}); err == nil {
		t.Error("no error for a negative limit")
	}
}

var schedulesFlag = flag.Int("schedules", 200, "how many schedules of TestNeverOlder to run")

// TestNeverOlder writes and reads at random while the server misbehaves, and checks each read against what was written.
// In half of the schedules, all bodies are held again and again.
// "make simulate" runs more schedules.
func TestNeverOlder(t *testing.T) {
	seed := testseed.Seed(t)
	schedules := *schedulesFlag
	if testing.Short() {
		schedules = 20
	}
	var reads, newer int
	for i := range schedules {
		synctest.Test(t, func(t *testing.T) {
			if i%2 == 0 {
				ondemand.HoldEagerly(t)
			}
			r, n := runSchedule(t, rand.New(rand.NewPCG(seed, uint64(i))))
			reads, newer = reads+r, newer+n
		})
		if t.Failed() {
			t.Fatalf("schedule %d of seed %d", i, seed)
		}
	}
	t.Logf("%d schedules, %d reads, %d of them newer than the metadata, 0 older", schedules, reads, newer)
	if reads == 0 || newer == 0 {
		t.Error("the schedules read nothing, or nothing that was newer")
	}
}

func runSchedule(t *testing.T, random *rand.Rand) (reads, newer int) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	states := make(map[string]string) // what each version of an object contains
	exists := func(key object.Key) bool {
		_, ok := server.Versions(corev1.SchemeGroupVersion.WithResource("secrets"))[key]
		return ok
	}
	write := func() {
		name := fmt.Sprint(random.IntN(5))
		s := secret(name, fmt.Sprint(random.Uint64()))
		switch {
		case !exists(keyOf(name)):
			states[name+"@"+server.Create(s)] = value(s)
		case random.IntN(4) == 0:
			server.Delete(s)
		default:
			states[name+"@"+server.Update(s)] = value(s)
		}
	}
	for range 5 {
		write()
	}
	inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{MaxBytes: int64(random.IntN(4000))})
	server.InjectRandom(tidingstest.Any, tidingstest.Chaos{Seed: random.Uint64(), Share: 0.3})
	check := func(m *metav1.PartialObjectMetadata, got *corev1.Secret) {
		reads++
		if got.ResourceVersion != m.ResourceVersion {
			newer++
		}
		if object.OlderResourceVersion(got.ResourceVersion, m.ResourceVersion) {
			t.Errorf("%s: read version %s, metadata has %s", m.Name, got.ResourceVersion, m.ResourceVersion)
		}
		if want := states[got.Name+"@"+got.ResourceVersion]; value(got) != want {
			t.Errorf("%s at %s: read %q, want %q", got.Name, got.ResourceVersion, value(got), want)
		}
	}
	for range 30 {
		switch random.IntN(4) {
		case 0:
			write()
		case 1:
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		case 2:
			before := inf.Metadata().Snapshot()
			list, _ := inf.List(t.Context(), ondemand.ListOptions{}) // it may fail because of the faults
			for _, got := range list.Items {
				if m, ok := before.Get(object.KeyOf(got)); ok {
					check(m, got)
				}
			}
		default:
			key := keyOf(fmt.Sprint(random.IntN(5)))
			before, ok := inf.Metadata().Get(key)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			got, err := inf.Get(ctx, key)
			cancel()
			switch {
			case ok && err == nil:
				check(before, got)
			case ok && apierrors.IsNotFound(err) && exists(key):
				t.Errorf("%s exists, and the metadata has version %s: %v", key, before.ResourceVersion, err)
			}
		}
	}
	server.ClearFaults()
	if err := inf.Metadata().WaitForVersion(t.Context(), tidings.All, server.ResourceVersion()); err != nil {
		t.Fatal(err)
	}
	list, err := inf.List(t.Context(), ondemand.ListOptions{})
	want := server.Versions(corev1.SchemeGroupVersion.WithResource("secrets"))
	if err != nil || len(list.Items) != len(want) {
		t.Errorf("in the end %d of %d: %v", len(list.Items), len(want), err)
	}
	for _, got := range list.Items {
		if got.ResourceVersion != want[object.KeyOf(got)] {
			t.Errorf("in the end %s has version %s, want %s", got.Name, got.ResourceVersion, want[object.KeyOf(got)])
		}
	}
	return reads, newer
}

const canary = "canary-value-of-a-secret-"

// TestUnreadSecretsAreNotInTheProcess dumps the heap of a child process that reads one of many Secrets.
func TestUnreadSecretsAreNotInTheProcess(t *testing.T) {
	if host := os.Getenv("ONDEMAND_CANARY_SERVER"); host != "" {
		dumpHeap(t, host, os.Getenv("ONDEMAND_CANARY_DUMP"))
		return
	}
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})
	for i := range 100 {
		s := secret(fmt.Sprintf("%03d", i), fmt.Sprintf("%s%03d", canary, i))
		s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
		server.Create(s)
	}
	file := filepath.Join(t.TempDir(), "heap")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "ONDEMAND_CANARY_SERVER="+server.Config().Host, "ONDEMAND_CANARY_DUMP="+file)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dump, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prefix := []byte(canary)[:len(canary)-1] // the child has the constant
	found := 0
	for i := range 100 {
		if bytes.Contains(dump, fmt.Appendf(nil, "%s-%03d", prefix, i)) {
			found++
			if i != 7 {
				t.Errorf("the value of Secret %03d is in the process", i)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d values found, want that of the one that was read", found)
	}
}

func dumpHeap(t *testing.T, host, file string) {
	factory, err := tidings.NewFactory(&rest.Config{Host: host}, tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inf, err := ondemand.New[*corev1.Secret](factory, tidings.Scope{}, ondemand.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(factory.Start(t.Context()), inf.Metadata().WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := inf.Metadata().Snapshot().Len(); n != 100 {
		t.Fatalf("%d objects", n)
	}
	if _, err := inf.Get(t.Context(), keyOf("007")); err != nil {
		t.Fatal(err)
	}
	dump, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	debug.WriteHeapDump(dump.Fd())
	if err := errors.Join(dump.Close(), factory.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
}
