package shards

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	errBroken     = errors.New("connection broken")
)

// leaseAPI is an API server for Leases, in memory. Its versions are those of one counter, as etcd's are.
type leaseAPI struct {
	mu       sync.Mutex
	leases   map[string]*coordinationv1.Lease
	version  int
	writes   []time.Time // when something was written
	watchers map[*leaseWatch]bool
	down     bool
	uids     int
}

func newLeaseAPI() *leaseAPI {
	return &leaseAPI{leases: map[string]*coordinationv1.Lease{}, watchers: map[*leaseWatch]bool{}}
}

// store writes a Lease, and tells the watchers. The caller holds mu.
func (a *leaseAPI) store(kind watch.EventType, lease *coordinationv1.Lease) *coordinationv1.Lease {
	a.version++
	a.writes = append(a.writes, time.Now())
	stored := lease.DeepCopy()
	stored.ResourceVersion = strconv.Itoa(a.version)
	if kind == watch.Deleted {
		delete(a.leases, lease.Name)
	} else {
		a.leases[lease.Name] = stored
	}
	for w := range a.watchers {
		w.add(watch.Event{Type: kind, Object: stored.DeepCopy()})
	}
	return stored.DeepCopy()
}

// writesSince returns the number of writes since a time.
func (a *leaseAPI) writesSince(start time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := slices.BinarySearchFunc(a.writes, start, time.Time.Compare)
	return len(a.writes) - i
}

// stop refuses all requests, and breaks the watches, until start.
func (a *leaseAPI) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = true
	a.breakWatches()
}

func (a *leaseAPI) breakWatches() {
	for w := range a.watchers {
		w.end()
		delete(a.watchers, w)
	}
}

func (a *leaseAPI) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = false
}

// edit changes a Lease as a person would; nil deletes it.
func (a *leaseAPI) edit(name string, change func(*coordinationv1.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lease := a.leases[name].DeepCopy()
	if lease == nil {
		return
	}
	if change == nil {
		a.store(watch.Deleted, lease)
		return
	}
	change(lease)
	a.store(watch.Modified, lease)
}

// spoil makes the table unreadable.
func (a *leaseAPI) spoil(text string) {
	a.edit("group", func(l *coordinationv1.Lease) { l.Annotations[ownersKey] = text })
}

// backup returns the state, for restore.
func (a *leaseAPI) backup() (leases map[string]*coordinationv1.Lease, version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	leases = map[string]*coordinationv1.Lease{}
	for name, l := range a.leases {
		leases[name] = l.DeepCopy()
	}
	return leases, a.version
}

func (a *leaseAPI) restore(leases map[string]*coordinationv1.Lease, version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leases, a.version = leases, version
	a.breakWatches()
}

// leaseClient is the client of one process.
type leaseClient struct {
	api *leaseAPI
	// delay is how long a request or an answer takes; fails decides whether one gets lost, again whether a request arrives
	// a second time, later, and late whether one that got lost arrives after the caller has given up. Nil means no time
	// and never.
	delay              func() time.Duration
	fails, again, late func() bool
	awake              func()
	skew               time.Duration // of the process's clock
	cut                func() bool   // the process cannot reach the server
	forbidden          string        // a verb
}

// leg is one direction of a call.
func (c *leaseClient) leg(ctx context.Context) error {
	if c.delay != nil {
		select {
		case <-time.After(c.delay()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.cut != nil && c.cut() {
		<-ctx.Done()
	}
	if c.fails != nil && c.fails() {
		return errBroken
	}
	return ctx.Err()
}

// call makes a call. Its answer may get lost after it took effect, and it may take effect after the caller has given up.
func (c *leaseClient) call(
	ctx context.Context, verb string, do func(a *leaseAPI) (*coordinationv1.Lease, error),
) (*coordinationv1.Lease, error) {
	if c.forbidden == verb {
		return nil, apierrors.NewForbidden(leaseResource, "", errors.New("not allowed to "+verb))
	}
	apply := func() (*coordinationv1.Lease, error) {
		c.api.mu.Lock()
		defer c.api.mu.Unlock()
		if c.api.down {
			return nil, errBroken
		}
		return do(c.api)
	}
	writes := verb != "list" && verb != "watch"
	if writes && c.again != nil && c.again() {
		time.AfterFunc(3*c.delay(), func() { _, _ = apply() })
	}
	if err := c.leg(ctx); err != nil {
		if writes && c.late != nil && c.late() {
			time.AfterFunc(min(10*c.delay(), 20*time.Second), func() { _, _ = apply() })
		}
		return nil, err
	}
	lease, err := apply()
	if legErr := c.leg(ctx); legErr != nil {
		lease, err = nil, legErr
	}
	if c.awake != nil {
		c.awake()
	}
	return lease, err
}

func (c *leaseClient) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return c.call(ctx, "create", func(a *leaseAPI) (*coordinationv1.Lease, error) {
		if a.leases[lease.Name] != nil {
			return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		a.uids++
		made := c.skewed(lease)
		made.UID = types.UID(strconv.Itoa(a.uids))
		return a.store(watch.Added, made), nil
	})
}

// skewed returns the Lease as a process with a wrong clock writes it.
func (c *leaseClient) skewed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	if t := lease.Spec.RenewTime; t != nil {
		wrong := metav1.NewMicroTime(t.Add(c.skew))
		lease.Spec.RenewTime = &wrong
	}
	return lease
}

func (c *leaseClient) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return c.call(ctx, "update", func(a *leaseAPI) (*coordinationv1.Lease, error) {
		held := a.leases[lease.Name]
		switch {
		case held == nil:
			return nil, apierrors.NewNotFound(leaseResource, lease.Name)
		case held.ResourceVersion != lease.ResourceVersion || held.UID != lease.UID:
			return nil, apierrors.NewConflict(leaseResource, lease.Name, errors.New("it was changed"))
		}
		return a.store(watch.Modified, c.skewed(lease)), nil
	})
}

func (c *leaseClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	_, err := c.call(ctx, "delete", func(a *leaseAPI) (*coordinationv1.Lease, error) {
		held := a.leases[name]
		if held == nil {
			return nil, apierrors.NewNotFound(leaseResource, name)
		}
		p := o.Preconditions
		if *p.UID != held.UID || p.ResourceVersion != nil && *p.ResourceVersion != held.ResourceVersion {
			return nil, apierrors.NewConflict(leaseResource, name, errors.New("it was changed"))
		}
		return a.store(watch.Deleted, held), nil
	})
	return err
}

// selection returns what the selectors of a request select.
func selection(o metav1.ListOptions) func(*coordinationv1.Lease) bool {
	byLabel, err := labels.Parse(o.LabelSelector)
	byName, nameErr := fields.ParseSelector(o.FieldSelector)
	if err = errors.Join(err, nameErr); err != nil {
		panic(err)
	}
	return func(l *coordinationv1.Lease) bool {
		return byLabel.Matches(labels.Set(l.Labels)) && byName.Matches(fields.Set{"metadata.name": l.Name})
	}
}

func (c *leaseClient) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list, selects := &coordinationv1.LeaseList{}, selection(o)
	_, err := c.call(ctx, "list", func(a *leaseAPI) (*coordinationv1.Lease, error) {
		for _, lease := range a.leases {
			if selects(lease) {
				list.Items = append(list.Items, *lease.DeepCopy())
			}
		}
		return nil, nil
	})
	return list, err
}

func (c *leaseClient) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w := &leaseWatch{client: c, events: make(chan watch.Event), more: make(chan struct{}, 1), ended: make(chan struct{})}
	w.selects = selection(o)
	_, err := c.call(ctx, "watch", func(a *leaseAPI) (*coordinationv1.Lease, error) {
		for _, lease := range a.leases {
			w.add(watch.Event{Type: watch.Added, Object: lease.DeepCopy()})
		}
		a.watchers[w] = true
		return nil, nil
	})
	if err != nil {
		w.Stop()
		return nil, err
	}
	go w.send()
	return w, nil
}

// leaseWatch delivers events in order, each with a delay.
type leaseWatch struct {
	client  *leaseClient
	selects func(*coordinationv1.Lease) bool
	mu      sync.Mutex
	queue   []watch.Event
	more    chan struct{}
	events  chan watch.Event
	ended   chan struct{}
	once    sync.Once
}

func (w *leaseWatch) add(e watch.Event) {
	if !w.selects(e.Object.(*coordinationv1.Lease)) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, e)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *leaseWatch) end() { w.once.Do(func() { close(w.ended) }) }

func (w *leaseWatch) send() {
	defer close(w.events)
	for {
		select {
		case <-w.ended:
			return
		case <-w.more:
		}
		w.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, e := range queue {
			if w.client.delay != nil {
				time.Sleep(w.client.delay())
			}
			select {
			case <-w.ended:
				return
			case w.events <- e:
			}
		}
	}
}

func (w *leaseWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *leaseWatch) Stop() {
	w.end()
	w.client.api.mu.Lock()
	defer w.client.api.mu.Unlock()
	delete(w.client.api.watchers, w)
}
