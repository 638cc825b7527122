package stories

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// beside plays a scene while something else goes on, every so often.
func (w *world) beside(
	every time.Duration, other func(ctx context.Context, n int) error, play func(*world) error,
) error {
	ctx, stop := context.WithCancel(w.ctx)
	var failed error
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; failed == nil && pause(ctx, every) == nil; n++ {
			if err := other(ctx, n); err != nil && ctx.Err() == nil {
				failed = err
			}
		}
	})
	err := play(w)
	stop()
	running.Wait()
	if err == nil {
		err = failed
	}
	return err
}

// rollout is a rollout of web.
func rollout(w *world) error {
	if err := w.setImage("web", "nginx:1.28"); err != nil {
		return err
	}
	return w.rolledOut("web")
}

// chatter is a controller that reports each of its rounds over many objects in an Event of its own.
func (w *world) chatter(ctx context.Context, n int) error {
	name := fmt.Sprint("page-", n%40)
	now := metav1.Now()
	_, err := w.client.CoreV1().Events(w.namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, ".", n)},
		InvolvedObject: corev1.ObjectReference{Kind: "Page", APIVersion: "example.com/v1", Name: name,
			Namespace: w.namespace},
		Type: corev1.EventTypeNormal, Reason: "Synced", Message: fmt.Sprint("page rendered in ", n%7, "ms"), Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "pages"},
	}, metav1.CreateOptions{FieldManager: "pages"})
	return err
}

// leaders creates the Leases of replicas of which one leads.
func leaders(w *world) error {
	for n := range 3 {
		if _, err := w.client.CoordinationV1().Leases(w.namespace).Create(w.ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("controller-", n)},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(fmt.Sprint("host-", n)),
				LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: ptr.To(metav1.NowMicro()),
				RenewTime: ptr.To(metav1.NowMicro())},
		}, metav1.CreateOptions{FieldManager: "controller"}); err != nil {
			return err
		}
	}
	return web3(w)
}

// renew renews a Lease. Once, another replica takes one.
func (w *world) renew(ctx context.Context, n int) error {
	leases := w.client.CoordinationV1().Leases(w.namespace)
	lease, err := leases.Get(ctx, fmt.Sprint("controller-", n%3), metav1.GetOptions{})
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if n == 4 {
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = ptr.To("host-9"), lease.Spec.RenewTime
		lease.Spec.LeaseTransitions = ptr.To[int32](1)
	}
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: "controller"})
	return err
}
