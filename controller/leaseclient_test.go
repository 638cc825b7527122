package controller

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// leaseAPI is an API server for leases over HTTP.
type leaseAPI struct {
	mu       sync.Mutex
	leases   map[string]*coordinationv1.Lease
	requests []*http.Request
	conns    map[net.Conn]bool
	hung     func() // if set, calls get no answer, but this is called
}

func (s *leaseAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	hung := s.hung
	s.mu.Unlock()
	if hung != nil {
		hung()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // to return is an answer, which a client that hangs up may still read
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/shop/leases")
	name = strings.TrimPrefix(name, "/")
	var sent coordinationv1.Lease
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		name = sent.Name
	}
	held := s.leases[name]
	switch {
	case r.Method == http.MethodPost && held == nil, r.Method == http.MethodPut && held != nil && held.ResourceVersion == sent.ResourceVersion:
		sent.Namespace = "shop"
		version, _ := strconv.Atoi(sent.ResourceVersion)
		sent.ResourceVersion = strconv.Itoa(version + 1)
		s.leases[name] = &sent
		answer(w, http.StatusOK, &sent)
	case held == nil:
		answer(w, http.StatusNotFound, apierrors.NewNotFound(leaseResource, name).Status())
	case r.Method == http.MethodGet:
		answer(w, http.StatusOK, held)
	default:
		answer(w, http.StatusConflict, apierrors.NewConflict(leaseResource, name, errBroken).Status())
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// serve serves the API over TLS, where clients use HTTP/2 if they may.
func (s *leaseAPI) serve(t *testing.T) *rest.Config {
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateActive {
			s.conns[c] = true
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{
		Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: 0.001, Burst: 1, RateLimiter: flowcontrol.NewFakeNeverRateLimiter(), UserAgent: "test",
	}
}

func newLeaseAPI() *leaseAPI {
	return &leaseAPI{leases: map[string]*coordinationv1.Lease{}, conns: map[net.Conn]bool{}}
}

func TestLeaseClient(t *testing.T) {
	s := newLeaseAPI()
	config := s.serve(t)
	e, err := NewLeaseElector(config, "shop", "demo")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewLeaseElector(config, "shop", "demo")
	if err != nil || e.Identity == other.Identity || e.Name != "demo" {
		t.Errorf("identities %q and %q, %v", e.Identity, other.Identity, err)
	}
	if config.QPS != 0.001 || config.RateLimiter == nil || config.UserAgent != "test" || config.NextProtos != nil {
		t.Errorf("the config was changed: %v", config)
	}
	ctx := t.Context()
	if _, err := e.Client.Get(ctx, "demo", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get of nothing: %v", err)
	}
	created, err := e.Client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, metav1.CreateOptions{})
	if err != nil || created.Namespace != "shop" || created.ResourceVersion != "1" {
		t.Fatalf("Create: %v, %v", created, err)
	}
	change := created.DeepCopy()
	now := metav1.NowMicro()
	change.Spec.HolderIdentity, change.Spec.RenewTime = &e.Identity, &now
	if _, err := e.Client.Update(ctx, change, metav1.UpdateOptions{}); err != nil {
		t.Errorf("Update: %v", err)
	}
	if _, err := e.Client.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("Update of an old version: %v", err)
	}
	got, err := e.Client.Get(ctx, "demo", metav1.GetOptions{})
	if err != nil || holder(got) != e.Identity || !got.Spec.RenewTime.Time.Equal(now.Truncate(time.Microsecond)) {
		t.Errorf("Get: %v, %v", got, err)
	}
	for _, r := range s.requests {
		if r.ProtoMajor != 1 || !strings.HasPrefix(r.UserAgent(), "test/leader-election") {
			t.Errorf("%s by %q", r.Proto, r.UserAgent())
		}
	}
}

// TestLeaseClientLeavesADeadConnection makes a call without a response: the next one must not use its connection.
func TestLeaseClientLeavesADeadConnection(t *testing.T) {
	s := newLeaseAPI()
	e, err := NewLeaseElector(s.serve(t), "shop", "demo")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.hung = cancel
	if _, err := e.Client.Get(ctx, "demo", metav1.GetOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call without an answer: %v", err)
	}
	s.mu.Lock()
	s.hung = nil
	s.mu.Unlock()
	if _, err := e.Client.Get(t.Context(), "demo", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) != 2 {
		t.Errorf("%d connections for two calls", len(s.conns))
	}
}

func TestLeaseClientNeedsAConfig(t *testing.T) {
	if _, err := NewLeaseElector(&rest.Config{Host: "://"}, "shop", "demo"); err == nil {
		t.Error("no error")
	}
}
