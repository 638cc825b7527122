package controller

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// leaseServer is an API server for a single lease.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	updates int
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// edit changes the lease without a client; nil deletes it.
func (s *leaseServer) edit(change func(*coordinationv1.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change == nil {
		s.lease = nil
		return
	}
	lease := s.lease.DeepCopy()
	change(lease)
	s.store(lease)
}

func (s *leaseServer) store(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	s.updates++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy()
}

// holder returns the lease's holder, or "".
func (s *leaseServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return holder(s.lease)
}

// writes returns the number of writes so far.
func (s *leaseServer) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updates
}

// leaseClient is a process's client of a leaseServer.
type leaseClient struct {
	server *leaseServer
	// delay is how long a call may take, half of it in each direction. Nil means no time.
	delay func() time.Duration
	// fails is called for each direction to decide whether the call fails. Nil means never.
	fails func() bool
	cut   atomic.Bool // calls go nowhere
}

// leg is one direction of a call.
func (c *leaseClient) leg(ctx context.Context) error {
	if c.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if c.delay != nil {
		select {
		case <-time.After(c.delay() / 2):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.fails != nil && c.fails() {
		return errBroken
	}
	return nil
}

// call makes a call: its response may get lost after it took effect.
func (c *leaseClient) call(ctx context.Context, do func(s *leaseServer) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if err := c.leg(ctx); err != nil {
		return nil, err
	}
	c.server.mu.Lock()
	lease, err := do(c.server)
	c.server.mu.Unlock()
	if err := c.leg(ctx); err != nil {
		return nil, err
	}
	return lease, err
}

func (c *leaseClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.call(ctx, func(s *leaseServer) (*coordinationv1.Lease, error) {
		if s.lease == nil {
			return nil, apierrors.NewNotFound(leaseResource, name)
		}
		return s.lease.DeepCopy(), nil
	})
}

func (c *leaseClient) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.call(ctx, func(s *leaseServer) (*coordinationv1.Lease, error) {
		if s.lease != nil {
			return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		return s.store(lease), nil
	})
}

func (c *leaseClient) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.call(ctx, func(s *leaseServer) (*coordinationv1.Lease, error) {
		if s.lease == nil {
			return nil, apierrors.NewNotFound(leaseResource, lease.Name)
		}
		if s.lease.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(leaseResource, lease.Name, errors.New("it was changed"))
		}
		return s.store(lease), nil
	})
}

// candidate is a process that wants to lead.
type candidate struct {
	elector *LeaseElector
	client  *leaseClient
	leads   atomic.Bool
	cause   error         // why its turn ended
	lingers time.Duration // how long its work takes to end
	stop    context.CancelFunc
	done    chan error
}

func newCandidate(s *leaseServer, identity string) *candidate {
	client := &leaseClient{server: s}
	return &candidate{
		client:  client,
		elector: &LeaseElector{Client: client, Name: "demo", Identity: identity},
		done:    make(chan error, 1),
	}
}

func (c *candidate) start() *candidate {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() {
		c.done <- c.elector.Lead(ctx, func(ctx context.Context) error {
			c.leads.Store(true)
			<-ctx.Done()
			c.cause = context.Cause(ctx)
			time.Sleep(c.lingers)
			c.leads.Store(false)
			return nil
		})
	}()
	return c
}
