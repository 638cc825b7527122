package ondemand_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// TestReadsSurviveARestore of the server from a backup, also those that began with metadata from before it.
func TestReadsSurviveARestore(t *testing.T) {
	for name, tooLarge := range map[string]bool{
		"a server that ignores the version of a get":  false,
		"a server that says that it is not there yet": true,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				server.Load(secret("a", "old"), secret("b", "old"))
				backup := server.Snapshot()
				server.Update(secret("a", "new"))
				server.Update(secret("b", "new"))
				server.Create(secret("c", "new"))
				inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
				behind(t, server)
				synctest.Wait()
				server.Restore(backup)
				if tooLarge {
					server.Inject(tidingstest.Get, tidingstest.Fault{Err: tooLargeVersion()},
						tidingstest.Fault{Err: tooLargeVersion()}, tidingstest.Fault{Err: tooLargeVersion()})
				}
				var reads sync.WaitGroup
				for _, name := range []string{"a", "b"} {
					reads.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
						defer cancel()
						if got, err := inf.Get(ctx, keyOf(name)); err != nil || value(got) != "old" {
							t.Errorf("%s: %v, %v", name, got, err)
						}
					})
				}
				reads.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					defer cancel()
					if _, err := inf.Get(ctx, keyOf("c")); !apierrors.IsNotFound(err) {
						t.Errorf("what the backup does not have: %v", err)
					}
				})
				time.Sleep(5 * time.Second)
				server.ClearFaults()
				server.BreakConnections()
				reads.Wait()
			})
		})
	}
}

// tooLargeVersion is the answer of an API server whose cache does not reach the requested version.
func tooLargeVersion() *apierrors.StatusError {
	err := apierrors.NewTimeoutError("Too large resource version: 100, current: 1", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// advancing is metadata whose version advances all the time.
type advancing struct{ version atomic.Int64 }

func (*advancing) Name() string                                         { return "secrets" }
func (*advancing) Get(object.Key) (*metav1.PartialObjectMetadata, bool) { return nil, false }
func (*advancing) Len() int                                             { return 1 }

func (a *advancing) ResourceVersionIn(string) string {
	version := a.version.Add(1)
	runtime.Gosched()
	return fmt.Sprint(version)
}

// TestConcurrentReadsKeepBodies: that one read has seen an older snapshot than another does not mean that the server
// was restored from a backup.
func TestConcurrentReadsKeepBodies(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.Create(secret("a", "v"))
	version := server.ResourceVersion()
	client, err := source.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	metadata := new(advancing)
	metadata.version.Store(1000)
	scope := source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("secrets")}
	reader, err := ondemand.NewReader(client, scope, new(corev1.Secret), metadata, nil, ondemand.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Stop()
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: server.Objects(scope.Resource)[0].GetUID(), ResourceVersion: version,
	}}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 500 {
				if _, err := reader.Read(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if n := server.Count(tidingstest.Get); n != 1 {
		t.Errorf("%d requests for one version of an object", n)
	}
}

// roundTripper is a function as the transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestPanicsOfTransportsAreErrors of the reads that they happen in, since the callers could not recover them.
func TestPanicsOfTransportsAreErrors(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("a bug") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			server.Create(secret("a", "v"))
			var broken atomic.Bool
			inf := startWith[*corev1.Secret](t, server, func(config *rest.Config) {
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(req *http.Request) (*http.Response, error) {
						if broken.Load() && strings.HasSuffix(req.URL.Path, "/a") {
							fail()
						}
						return next.RoundTrip(req)
					})
				})
			})
			broken.Store(true)
			for range 2 {
				_, err := inf.Get(t.Context(), keyOf("a"))
				if err == nil || !strings.Contains(err.Error(), "default/a") {
					t.Errorf("got %v", err)
				}
			}
			broken.Store(false)
			mustGet(t, inf, "a", "v")
		})
	}
}

// startWith is start with a changed config.
func startWith[T object.Object](
	t *testing.T, server *tidingstest.Server, change func(*rest.Config),
) *ondemand.Informer[T] {
	t.Helper()
	config := server.Config()
	change(config)
	factory, err := tidings.NewFactory(config, tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inf, err := ondemand.New[T](factory, tidings.Scope{}, ondemand.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(inf.Stop(context.Background()), factory.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
		factory.Client().CloseIdleConnections()
	})
	if err := errors.Join(factory.Start(t.Context()), inf.Metadata().WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	return inf
}

// TestReadsOfAStoppedInformer say so, and request nothing.
func TestReadsOfAStoppedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Load(secret("a", "v"), secret("b", "v"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		server.InjectAlways(tidingstest.Get, tidingstest.Fault{Delay: time.Hour})
		got := make(chan error, 1)
		go func() {
			_, err := inf.Get(context.Background(), keyOf("a"))
			got <- err
		}()
		synctest.Wait()
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("in flight: %v", err)
		}
		before := server.Count(tidingstest.Get)
		if _, err := inf.Get(t.Context(), keyOf("b")); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("after the stop: %v", err)
		}
		if _, err := inf.List(t.Context(), ondemand.ListOptions{}); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("a list after the stop: %v", err)
		}
		if n := server.Count(tidingstest.Get) - before; n != 0 {
			t.Errorf("%d requests after the stop", n)
		}
	})
}

// TestNotFoundOfAnEarlierRequest: a read does not get the answer to a request that was sent before it, when the object
// did not exist.
func TestNotFoundOfAnEarlierRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("a", "old"))
		var gets atomic.Int64
		again := make(chan struct{})
		inf := startWith[*corev1.Secret](t, server, func(config *rest.Config) {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if !strings.HasSuffix(r.URL.Path, "/secrets/a") {
						return next.RoundTrip(r)
					}
					n := gets.Add(1)
					if n == 1 {
						server.Delete(secret("a", ""))
					}
					response, err := next.RoundTrip(r)
					if n == 2 {
						server.Create(secret("a", "new"))
						close(again)
						time.Sleep(time.Second) // the answer is on its way
					}
					return response, err
				})
			})
		})
		var reads sync.WaitGroup
		reads.Go(func() { _, _ = inf.Get(t.Context(), keyOf("a")) }) // it may get either
		<-again
		time.Sleep(100 * time.Millisecond)
		if _, ok := inf.Metadata().Get(keyOf("a")); !ok {
			t.Fatal("the metadata does not have it yet")
		}
		if got, err := inf.Get(t.Context(), keyOf("a")); err != nil || value(got) != "new" {
			t.Errorf("got %v, %v", got, err)
		}
		reads.Wait()
	})
}

// TestNotFoundOfALaggingReplica: one that lacks an object's creation has an older state of it.
func TestNotFoundOfALaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("b", "b"))
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		server.Create(secret("a", "v"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		server.Inject(tidingstest.Get, tidingstest.Fault{Lag: 1}, tidingstest.Fault{Lag: 1}, tidingstest.Fault{Lag: 1})
		server.Inject(tidingstest.List, tidingstest.Fault{Lag: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := inf.Get(ctx, keyOf("a")); err != nil || value(got) != "v" {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
