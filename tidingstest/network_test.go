package tidingstest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/internal/memnet"
)

func TestPartition(t *testing.T) {
	for name, options := range map[string]ServerOptions{"plain": {}, "TLS": {TLS: true}, "HTTP/2": {HTTP2: true}, "HTTP/2 and TLS": {HTTP2: true, TLS: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testPartition(t, options) })
		})
	}
}

func testPartition(t *testing.T, options ServerOptions) {
	s := NewServer(t, options)
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := must(maps.Watch(ctx, metav1.ListOptions{ResourceVersion: s.ResourceVersion()}))(t)
	s.Partition()
	s.Partition() // which changes nothing
	s.Create(configMap("a", "one"))
	time.Sleep(time.Minute)
	select {
	case e := <-w.ResultChan():
		t.Errorf("got through: %v", e)
	default:
	}
	short, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if _, err := maps.List(short, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a new request: %v", err)
	}
	s.Heal()
	s.Heal()
	if e := <-w.ResultChan(); e.Object == nil || keyOf(e.Object.(metav1.Object)).Name != "one" {
		t.Errorf("got %v, want what was sent meanwhile", e)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	cancel()
	w.Stop()
}

// TestPartitionWhileConnecting: nor does anything get through on a connection that was being opened
// when the partition began.
func TestPartitionWhileConnecting(t *testing.T) {
	for name, options := range map[string]ServerOptions{"plain": {}, "TLS": {TLS: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(t, options)
				listener := must(s.waitReachable(t.Context()))(t)
				s.Partition()
				raw := must(listener.Dial(t.Context()))(t)
				defer raw.Close()
				var c net.Conn = raw
				if options.TLS {
					config := s.identity.client()
					config.ServerName = memnet.HostName
					c = tls.Client(raw, config)
				}
				answered := make(chan error, 1)
				go func() {
					_, err := fmt.Fprintf(c, "GET /version HTTP/1.1\r\nHost: %s\r\n\r\n", memnet.HostName)
					if err == nil {
						_, err = c.Read(make([]byte, 1))
					}
					answered <- err
				}()
				synctest.Wait()
				select {
				case err := <-answered:
					t.Fatalf("answered during the partition: %v", err)
				default:
				}
				s.Heal()
				if err := <-answered; err != nil {
					t.Errorf("after it: %v", err)
				}
			})
		})
	}
}

func TestChangeCertificate(t *testing.T) {
	for name, options := range map[string]ServerOptions{
		"memory": {TLS: true}, "HTTP/2": {TLS: true, HTTP2: true}, "loopback": {TLS: true, Loopback: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewServer(t, options)
			list := func() error {
				_, err := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
				return err
			}
			if err := list(); err != nil {
				t.Fatal(err)
			}
			s.ChangeCertificate(true)
			if err := list(); err != nil {
				t.Errorf("another certificate of the same authority: %v", err)
			}
			s.ChangeCertificate(false)
			if _, refused := errors.AsType[x509.UnknownAuthorityError](list()); !refused {
				t.Errorf("a certificate of an unknown authority: %v", list())
			}
			s.ChangeCertificate(true)
			if err := list(); err != nil {
				t.Errorf("a trusted one again: %v", err)
			}
		})
	}
}

func TestShiftClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, ServerOptions{})
		maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
		for _, shift := range []time.Duration{time.Hour, -2 * time.Hour} {
			s.ShiftClock(shift)
			created := must(maps.Create(t.Context(), configMap("", "x"), metav1.CreateOptions{}))(t)
			if got, want := created.CreationTimestamp.Time, s.now(); got.Sub(want).Abs() > time.Second {
				t.Errorf("created at %v by a clock that says %v", got, want)
			}
			s.Delete(created)
		}
		if behind := -time.Until(s.now()); behind != time.Hour {
			t.Errorf("the server's clock says %v, ours %v", s.now(), time.Now())
		}
	})
}

// TestFaultCounts takes faults and counts them, by kind.
func TestFaultCounts(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	s.Inject(List, Fault{Lag: 1, Gzip: true}, Fault{}, Fault{Err: apierrors.NewServiceUnavailable("")}, Fault{Lag: 2})
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	for range 5 {
		_, _ = maps.List(t.Context(), metav1.ListOptions{}) // only the faults matter
	}
	got := s.FaultCounts()
	if len(got) != 3 || got["stale replica"] != 2 || got["compressed in pieces"] != 1 || got["answer 503"] != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestWatchFromTheFuture watches from a version that a restored server has not reached: such a
// watch sends nothing, not even bookmarks.
func TestWatchFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, ServerOptions{BookmarkInterval: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
		w := must(maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "1000000", AllowWatchBookmarks: true}))(t)
		s.Create(configMap("a", "x"))
		for e := range w.ResultChan() {
			if e.Type != "ERROR" {
				t.Errorf("got %v", e)
			}
		}
	})
}
