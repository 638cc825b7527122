package ondemand_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/tidingstest"
)

// withSecrets returns an informer over a server with n secrets.
func withSecrets(t *testing.T, n int) (*tidingstest.Server, *ondemand.Informer[*corev1.Secret]) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for i := range n {
		server.Create(secret(fmt.Sprintf("%03d", i), fmt.Sprint("v", i)))
	}
	return server, start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
}

// TestWhenAListIsCheaper reads some of 100 bodies first, and counts the requests for the others.
func TestWhenAListIsCheaper(t *testing.T) {
	for _, test := range []struct{ objects, held, lists, gets int }{
		{100, 0, 1, 0}, {100, 75, 1, 0}, {100, 76, 0, 24}, // a quarter
		{8, 0, 1, 0}, {7, 0, 0, 7}, // at least eight
		{40, 33, 0, 7}, {32, 24, 1, 0},
	} {
		server, inf := withSecrets(t, test.objects)
		for i := range test.held {
			mustGet(t, inf, fmt.Sprintf("%03d", i), fmt.Sprint("v", i))
		}
		lists, gets := server.Count(tidingstest.List), server.Count(tidingstest.Get)
		list, err := inf.List(t.Context(), ondemand.ListOptions{})
		if err != nil || len(list.Items) != test.objects {
			t.Errorf("%d items, %v", len(list.Items), err)
		}
		lists, gets = server.Count(tidingstest.List)-lists, server.Count(tidingstest.Get)-gets
		if lists != test.lists || gets != test.gets {
			t.Errorf("%d of %d are held: %d lists and %d gets, want %d and %d", test.held, test.objects, lists, gets,
				test.lists, test.gets)
		}
	}
}

// TestListReadsAllPages lists more than a page has.
func TestListReadsAllPages(t *testing.T) {
	server, inf := withSecrets(t, 501)
	lists := server.Count(tidingstest.List)
	list, err := inf.List(t.Context(), ondemand.ListOptions{})
	gets := server.Count(tidingstest.Get)
	lists = server.Count(tidingstest.List) - lists
	if err != nil || len(list.Items) != 501 || gets != 0 || lists != 2 {
		t.Errorf("%d items, %v, %d gets, %d lists", len(list.Items), err, gets, lists)
	}
}

// TestListsHaveTheVersionOfTheMetadata, whichever way they are read.
func TestListsHaveTheVersionOfTheMetadata(t *testing.T) {
	_, inf := withSecrets(t, 3)
	want := inf.Metadata().Snapshot().ResourceVersion()
	list, err := inf.List(t.Context(), ondemand.ListOptions{})
	bodies, failed := inf.Bodies(t.Context(), inf.Metadata().Lister().All())
	if err := errors.Join(err, failed); err != nil || want == "" {
		t.Fatalf("version %q, %v", want, err)
	}
	if list.ResourceVersion != want || bodies.ResourceVersion != want {
		t.Errorf("list at %q, bodies at %q, want %q", list.ResourceVersion, bodies.ResourceVersion, want)
	}
}

// TestReadsWaitForTheFirstSync reads while the server is away: in vain, and until it is back.
func TestReadsWaitForTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(secret("a", "v"))
		factory, err := tidings.NewFactory(server.Config(), tidings.Options{})
		if err != nil {
			t.Fatal(err)
		}
		inf, err := ondemand.New[*corev1.Secret](factory, tidings.Scope{}, ondemand.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		server.Stop()
		if err := factory.Start(ctx); err != nil {
			t.Fatal(err)
		}
		reads := map[string]func(context.Context) (int, error){
			"get": func(ctx context.Context) (int, error) {
				_, err := inf.Get(ctx, keyOf("a"))
				return 1, err
			},
			"list": func(ctx context.Context) (int, error) {
				list, err := inf.List(ctx, ondemand.ListOptions{})
				return len(list.Items), err
			},
			"bodies": func(ctx context.Context) (int, error) {
				list, err := inf.Bodies(ctx, func(yield func(*metav1.PartialObjectMetadata) bool) {
					inf.Metadata().Lister().All()(yield) // what there is after the sync
				})
				return len(list.Items), err
			},
		}
		for name, read := range reads {
			short, cancel := context.WithTimeout(ctx, time.Second)
			_, err := read(short)
			if !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "list and watch on secrets") {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		ended := make(chan error)
		for name, read := range reads {
			go func() {
				n, err := read(ctx)
				if err == nil && n != 1 {
					err = fmt.Errorf("%s: %d objects", name, n)
				}
				ended <- err
			}()
		}
		synctest.Wait()
		server.Start()
		for range reads {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := errors.Join(inf.Stop(context.Background()), factory.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
		factory.Client().CloseIdleConnections()
	})
}

// TestBodiesAreKeptForTenMinutes is the default.
func TestBodiesAreKeptForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, inf := withSecrets(t, 1)
		for i, pause := range []time.Duration{0, 10*time.Minute - time.Second, 10*time.Minute + time.Second} {
			time.Sleep(pause)
			mustGet(t, inf, "000", "v0")
			if got, want := server.Count(tidingstest.Get), 1+i/2; got != want {
				t.Errorf("after %v: %d requests, want %d", pause, got, want)
			}
		}
	})
}

// TestEightRequestsAtOnce is the default: the ninth request waits.
func TestEightRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, inf := withSecrets(t, 9)
		server.InjectAlways(tidingstest.Get, tidingstest.Fault{Delay: time.Second})
		all := slices.Collect(inf.Metadata().Lister().All())
		for n, want := range []time.Duration{8: time.Second, 9: 2 * time.Second} {
			if want == 0 {
				continue
			}
			begun := time.Now()
			if _, err := inf.Bodies(t.Context(), slices.Values(all[:n])); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("%d requests took %v, want %v", n, took, want)
			}
			time.Sleep(time.Hour) // what was read is dropped
		}
	})
}

// TestNobodyJoinsACanceledRequest reads again after the only reader of a request has given up.
func TestNobodyJoinsACanceledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, inf := withSecrets(t, 1)
		server.Inject(tidingstest.Get, tidingstest.Fault{Delay: time.Hour})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := inf.Get(short, keyOf("000")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		begun := time.Now()
		mustGet(t, inf, "000", "v0")
		if took := time.Since(begun); took != 0 || server.Count(tidingstest.Get) != 2 {
			t.Errorf("took %v, %d requests", took, server.Count(tidingstest.Get))
		}
	})
}
