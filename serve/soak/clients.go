package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clients are all followers.
type clients struct {
	all      []*follower
	cancel   context.CancelFunc
	work     sync.WaitGroup
	lists    atomic.Int64
	watches  atomic.Int64
	expired  atomic.Int64
	mistakes chan error // the first ones
}

// follower is a client that keeps a view of some config maps, and checks every event.
type follower struct {
	*clients
	maps     func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	list     func(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error)
	selector string

	mu      sync.Mutex // guards the fields below
	version uint64     // 0 before the first list
	view    map[string]string
}

// sharing is how many followers share a connection.
const sharing = 20

// follow starts clients.
func (w *world) follow(ctx context.Context, n int) (*clients, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &clients{cancel: cancel, mistakes: make(chan error, 100)}
	var client kubernetes.Interface
	for i := range n {
		if i%sharing == 0 {
			config := rest.CopyConfig(w.config)
			config.UserAgent = fmt.Sprintf("soak-%d", i/sharing)
			if i/sharing%2 == 0 {
				config.ContentType = "application/vnd.kubernetes.protobuf"
				config.AcceptContentTypes = config.ContentType
			}
			config.Dial = (&net.Dialer{}).DialContext // one of its own makes client-go share no connection
			var err error
			if client, err = kubernetes.NewForConfig(config); err != nil {
				cancel()
				return nil, err
			}
		}
		m := client.CoreV1().ConfigMaps(namespace)
		f := &follower{clients: c, maps: m.Watch, list: m.List,
			selector: []string{"", "half=a", "half=b", "half!=a"}[i%4]}
		c.all = append(c.all, f)
		c.work.Go(func() { f.run(ctx) })
	}
	return c, nil
}

func (c *clients) stop() {
	c.cancel()
	c.work.Wait()
}

func (c *clients) counts() string {
	return fmt.Sprintf("%d lists, %d watches, %d of them too old", c.lists.Load(), c.watches.Load(), c.expired.Load())
}

func (c *clients) mistake(format string, args ...any) {
	select {
	case c.mistakes <- fmt.Errorf(format, args...):
	default:
	}
}

// retryInterval is between requests of a client.
const retryInterval = 50 * time.Millisecond

func (f *follower) run(ctx context.Context) {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		f.step(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (f *follower) position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

// errListed makes a follower list again.
var errListed = errors.New("too old")

// step lists once, or watches until the watch ends.
func (f *follower) step(ctx context.Context) {
	version := f.position()
	if version == 0 {
		f.relist(ctx, 0)
		return
	}
	w, err := f.maps(ctx, metav1.ListOptions{
		ResourceVersion: strconv.FormatUint(version, 10), LabelSelector: f.selector, AllowWatchBookmarks: true,
	})
	if err != nil {
		return // it is tried again
	}
	f.watches.Add(1)
	defer w.Stop()
	for e := range w.ResultChan() {
		switch err := f.see(e); {
		case err == errListed:
			f.expired.Add(1)
			f.relist(ctx, version)
			return
		case err != nil:
			return
		}
	}
}

// relist replaces the view with a list that is no older than a version.
func (f *follower) relist(ctx context.Context, notBefore uint64) {
	list, err := f.list(ctx, metav1.ListOptions{LabelSelector: f.selector})
	if err != nil {
		return // it is tried again
	}
	f.lists.Add(1)
	version, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil || version < max(notBefore, f.position()) {
		f.mistake("a list of the most recent state at %s after version %d", list.ResourceVersion, f.position())
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version, f.view = version, map[string]string{}
	for _, o := range list.Items {
		f.view[o.Name] = o.ResourceVersion
	}
}

// see applies an event. errListed says that a list is needed, another error that the watch is over.
func (f *follower) see(e watch.Event) error {
	o, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		return errListed
	}
	now, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.view[o.Name]
	switch {
	case now < f.version, now == f.version && e.Type != watch.Bookmark:
		f.mistake("%q: %s %s at %d after %d", f.selector, e.Type, o.Name, now, f.version)
	case e.Type != watch.Bookmark && has != (e.Type != watch.Added):
		f.mistake("%q: %s %s at %d, which was there before: %v", f.selector, e.Type, o.Name, now, has)
	}
	f.version = max(now, f.version)
	switch e.Type {
	case watch.Bookmark:
	case watch.Deleted:
		delete(f.view, o.Name)
	default:
		f.view[o.Name] = o.ResourceVersion
	}
	return nil
}

// settle waits until all views are what the API server has, which does not change meanwhile.
func (c *clients) settle(ctx context.Context, w *world) error {
	wanted := map[string]map[string]string{}
	for _, f := range c.all[:min(4, len(c.all))] {
		list, err := w.admin.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector})
		if err != nil {
			return err
		}
		state := map[string]string{}
		for _, o := range list.Items {
			state[o.Name] = o.ResourceVersion
		}
		wanted[f.selector] = state
	}
	deadline := time.Now().Add(settlePatience)
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for _, f := range c.all {
		for !f.has(wanted[f.selector]) {
			if time.Now().After(deadline) {
				return fmt.Errorf("the view of a client with selector %q at %d still differs after %v", f.selector,
					f.position(), settlePatience)
			}
			select {
			case err := <-c.mistakes:
				return err
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	select {
	case err := <-c.mistakes:
		return err
	default:
		return nil
	}
}

func (f *follower) has(state map[string]string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version > 0 && maps.Equal(f.view, state)
}
