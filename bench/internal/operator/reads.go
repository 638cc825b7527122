package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"runtime"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// Reads reads the first of many objects again and again, from controller-runtime's cache or on demand.
type Reads struct {
	Kind        Kind
	Read, Times int
	// Budget is Tidings' memory budget in bytes; 0 means none.
	Budget int64
}

func (r Reads) run(ctx context.Context, m Measurement) (measure.Metrics, error) {
	newCache := cache.NewCacheFunc(cache.New)
	if m.Engine == engine.Tidings {
		newCache = tidingsruntime.WithOnDemand(tidingsruntime.WithOptions(tidings.Options{MemoryBudget: r.Budget}))
	}
	return measureCache(ctx, m.Host, newCache, func(c cache.Cache) error {
		for range r.Times {
			for i := range r.Read {
				if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: nameOf(i)}, r.Kind.object()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (k Kind) object() client.Object {
	switch k {
	case Secrets:
		return &corev1.Secret{}
	case ConfigMaps:
		return &corev1.ConfigMap{}
	default:
		return &corev1.Pod{}
	}
}

// Forms reads pods as structured objects, unstructured and as metadata; with Tidings, over one watch.
type Forms struct{}

func (Forms) run(ctx context.Context, m Measurement) (measure.Metrics, error) {
	newCache := cache.NewCacheFunc(cache.New)
	if m.Engine == engine.Tidings {
		newCache = tidingsruntime.OneWatch(tidingsruntime.NewCache)
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	whole, metadata := new(unstructured.Unstructured), new(metav1.PartialObjectMetadata)
	whole.SetGroupVersionKind(kind)
	metadata.SetGroupVersionKind(kind)
	return measureCache(ctx, m.Host, newCache, func(c cache.Cache) error {
		for _, form := range []client.Object{&corev1.Pod{}, whole, metadata} {
			if _, err := c.GetInformer(ctx, form); err != nil {
				return err
			}
		}
		return nil
	})
}

// measureCache measures a cache that has done what use does.
func measureCache(
	ctx context.Context, host string, newCache cache.NewCacheFunc, use func(cache.Cache) error,
) (measure.Metrics, error) {
	var seen traffic
	config := &rest.Config{Host: host, QPS: -1, Dial: seen.dial}
	config.Wrap(seen.wrap)
	base := float64(wiretest.LiveHeap())
	c, err := newCache(config, cache.Options{})
	if err != nil {
		return nil, err
	}
	stop := background(ctx, c.Start)
	if !c.WaitForCacheSync(ctx) {
		return nil, errors.Join(errors.New("the cache does not start"), stop())
	}
	if err := use(c); err != nil {
		return nil, errors.Join(err, stop())
	}
	out := measure.Metrics{
		"heap": float64(wiretest.LiveHeap()) - base, "bytes": float64(seen.bytes.Load()), "gets": float64(seen.gets.Load()),
		"watches": float64(seen.watches.Load()),
	}
	runtime.KeepAlive(c)
	return out, stop()
}

// traffic counts what a client gets from the server.
type traffic struct{ bytes, gets, watches atomic.Int64 }

func (t *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return countedConn{conn, &t.bytes}, nil
}

type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		switch watch := r.URL.Query().Get("watch"); {
		case watch != "" && watch != "false":
			t.watches.Add(1)
		case path.Base(path.Dir(path.Dir(r.URL.Path))) == namespace:
			t.gets.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
