package serve

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// overProtocols runs a test with clients that speak each protocol.
func overProtocols(t *testing.T, test func(t *testing.T, with func(*rest.Config) *rest.Config)) {
	for name, protocols := range map[string][]string{"HTTP/1.1": {"http/1.1"}, "HTTP/2": {"h2"}} {
		t.Run(name, func(t *testing.T) {
			test(t, func(c *rest.Config) *rest.Config {
				c = rest.CopyConfig(c)
				c.NextProtos = protocols
				return c
			})
		})
	}
}

// next returns the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("no event")
	}
	return watch.Event{}
}

// TestSilentWatchStays has a watch without events for longer than a client may take to read one.
func TestSilentWatchStays(t *testing.T) {
	const patience = 2 * time.Second // a machine that is busy does not take so long to write
	overProtocols(t, func(t *testing.T, with func(*rest.Config) *rest.Config) {
		t.Parallel()
		f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{WriteTimeout: patience})
		f.Create(configMap("x", "a"))
		f.synced(t)
		r := f.replicas[0]
		client := kubernetes.NewForConfigOrDie(with(r.config(as(f.config, "user"))))
		w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(),
			metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		select {
		case e, ok := <-w.ResultChan():
			t.Fatalf("%v, open: %t", e, ok)
		case <-time.After(4 * patience):
		}
		f.Update(configMap("x", "b"))
		if e := next(t, w); e.Type != watch.Modified {
			t.Errorf("%v", e)
		}
		if n := r.counts.cut.Load(); n != 0 {
			t.Errorf("%d watchers are said not to read", n)
		}
	})
}

// TestEventComesWhole has events of many sizes, none of which may wait in a buffer for the next one.
func TestEventComesWhole(t *testing.T) {
	overProtocols(t, func(t *testing.T, with func(*rest.Config) *rest.Config) {
		t.Parallel()
		f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
		f.Create(configMap("x", "a"))
		f.synced(t)
		client := kubernetes.NewForConfigOrDie(with(f.replicas[0].config(as(f.config, "user"))))
		w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(),
			metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for size := 1; size < 100_000; size = size*3/2 + 1 {
			o := configMap("x", "a")
			o.Data = map[string]string{"text": strings.Repeat("x", size)}
			f.Update(o)
			if e := next(t, w); len(e.Object.(*corev1.ConfigMap).Data["text"]) != size {
				t.Errorf("%v", e)
			}
		}
	})
}

// TestStoppedClientIsCut has a client that does not even read its connection any more.
func TestStoppedClientIsCut(t *testing.T) {
	overProtocols(t, func(t *testing.T, with func(*rest.Config) *rest.Config) {
		t.Parallel()
		f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{WriteTimeout: 500 * time.Millisecond})
		f.Create(configMap("x", "a"))
		f.synced(t)
		r := f.replicas[0]
		c := with(r.config(as(f.config, "user")))
		var stop sync.RWMutex // held while the client does not read
		c.Dial = (&stoppable{stop: &stop}).dial
		w, err := kubernetes.NewForConfigOrDie(c).CoreV1().ConfigMaps("default").Watch(t.Context(),
			metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		stop.Lock()
		defer w.Stop()
		defer stop.Unlock()
		big := configMap("x", "a")
		big.Data = map[string]string{"text": strings.Repeat("x", 500<<10)}
		eventually(t, func() bool {
			big.Labels["half"] += "a"
			f.Update(big)
			return len(r.watches.list()) == 0
		})
	})
}

// stoppable dials connections that can be kept from reading.
type stoppable struct{ stop *sync.RWMutex }

func (s *stoppable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &stoppableConn{c, s.stop}, err
}

type stoppableConn struct {
	net.Conn
	stop *sync.RWMutex
}

func (c *stoppableConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.stop.RLock()
	defer c.stop.RUnlock()
	return n, err
}
