package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

// The user agents of the informers.
const (
	theirAgent = "demo-client-go"
	ourAgent   = "demo-tidings"
)

// watching is an informer of client-go and one of Tidings.
type watching struct {
	theirs listersv1.PodLister
	ours   *tidings.SharedInformer[*corev1.Pod]
	stop   func()
}

func startInformers(ctx context.Context, config *rest.Config) (*watching, error) {
	ctx, cancel := context.WithCancel(ctx)
	theirConfig, ourConfig := rest.CopyConfig(config), rest.CopyConfig(config)
	theirConfig.UserAgent, ourConfig.UserAgent = theirAgent, ourAgent
	client, err := kubernetes.NewForConfig(theirConfig)
	if err != nil {
		cancel()
		return nil, err
	}
	theirs := informers.NewSharedInformerFactory(client, 0)
	pods := theirs.Core().V1().Pods()
	pods.Informer()
	ours, err := tidings.NewFactory(ourConfig, tidings.Options{})
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watching{theirs: pods.Lister(), stop: func() {
		cancel()
		theirs.Shutdown()
		_ = ours.Shutdown(context.WithoutCancel(ctx)) // nothing here can keep it from ending
	}}
	if w.ours, err = tidings.Informer[*corev1.Pod](ours, tidings.Scope{}); err == nil {
		theirs.Start(ctx.Done())
		err = ours.Start(ctx)
	}
	if err == nil {
		theirs.WaitForCacheSync(ctx.Done())
		err = w.ours.WaitForSync(ctx)
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// compareInterval is how often the informers are compared with the server until they agree.
const compareInterval = 50 * time.Millisecond

// await waits until both informers hold these versions, and returns how long each took since began.
func (w *watching) await(
	ctx context.Context, began time.Time, want map[string]string,
) (theirs, ours time.Duration, err error) {
	tick := time.NewTicker(compareInterval)
	defer tick.Stop()
	for {
		their, our, err := w.versions()
		if err != nil {
			return 0, 0, err
		}
		if theirs == 0 && maps.Equal(their, want) {
			theirs = time.Since(began)
		}
		if ours == 0 && maps.Equal(our, want) {
			ours = time.Since(began)
		}
		if theirs != 0 && ours != 0 {
			return theirs, ours, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("the informers hold what the API server lists: client-go's %t, Tidings' %t: %w",
				maps.Equal(their, want), maps.Equal(our, want), ctx.Err())
		}
	}
}

// versions returns the versions that each informer holds.
func (w *watching) versions() (theirs, ours map[string]string, err error) {
	theirs, ours = map[string]string{}, map[string]string{}
	list, err := w.theirs.Pods(namespace).List(labels.Everything())
	for _, pod := range list {
		theirs[pod.Name] = pod.ResourceVersion
	}
	for pod := range w.ours.Lister().All() {
		ours[pod.Name] = pod.ResourceVersion
	}
	return theirs, ours, err
}

// showMoves takes each replica away and changes pods each time; the informers go on at the other.
func showMoves(ctx context.Context, out *printer, c *cluster, p *pair, w *watching) error {
	for i, move := range []struct {
		what string
		act  func() error
	}{
		{"kill the first replica", func() error { p.replicas[0].Kill(); return nil }},
		{"start it again", func() error { return p.start(ctx, 0) }},
		{"stop the second replica, as a rollout does", func() error { return p.replicas[1].Stop(ctx) }},
	} {
		began := time.Now()
		if err := move.act(); err != nil {
			return fmt.Errorf("%s: %w", move.what, err)
		}
		if err := c.change(ctx, i+1); err != nil {
			return err
		}
		want, err := c.versions(ctx)
		if err != nil {
			return err
		}
		theirs, ours, err := w.await(ctx, began, want)
		if err != nil {
			return fmt.Errorf("%s: %w", move.what, err)
		}
		out.say("   %-43s both hold the API server's %d pods; client-go's %v after that, Tidings' %v",
			move.what, len(want), round(theirs), round(ours))
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
