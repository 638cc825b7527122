// Package scenario keeps the controllers of a control plane busy with changes that always end in the same state.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// scenarioLabel marks the namespaces that belong to a State.
const scenarioLabel = "scenario"

// settlePatience is how long the controllers may take to finish. On any engine, a ReplicaSet
// controller that waits for an event that was lost with the server only continues after five
// minutes, at the next resync.
const settlePatience = 10 * time.Minute

// Options configures a scenario.
type Options struct {
	// Rounds is the number of rounds, each of which changes everything, and Pause the wait after
	// the changes of a round.
	Rounds int
	Pause  time.Duration
	Seed   uint64
	// Disturb is called in the middle of every round from the second on, for example to restart the
	// API server. It may be nil.
	Disturb func(ctx context.Context) error
	// Quietly waits before each disturbance until nothing is left to do, so that no request of a
	// controller is in flight.
	Quietly bool
	Logger  *slog.Logger
}

// play is a scenario in progress.
type play struct {
	Options
	client kubernetes.Interface
	random *rand.Rand
}

// Play creates workloads, changes them in rounds, deletes some, and returns the state in which the
// controllers leave the cluster when nothing is left to do. Two plays with the same options should
// end in the same state.
func Play(ctx context.Context, client kubernetes.Interface, opts Options) (State, error) {
	p := &play{Options: opts, client: client, random: rand.New(rand.NewPCG(opts.Seed, 0))}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if err := createNode(ctx, client); err != nil {
		return State{}, err
	}
	wg.Go(func() { (&kubelet{client: client}).run(ctx) })
	for round := range opts.Rounds {
		if err := p.round(ctx, round); err != nil {
			return State{}, fmt.Errorf("round %d: %w", round, err)
		}
	}
	begin := time.Now()
	state, err := p.settle(ctx)
	state.Settled = time.Since(begin)
	return state, err
}

// round creates a namespace with workloads, changes those of earlier rounds, and deletes the
// namespace of three rounds ago.
func (p *play) round(ctx context.Context, round int) error {
	p.Logger.Info("round", "number", round)
	if err := p.create(ctx, namespaceOf(round)); err != nil {
		return err
	}
	if round > 0 && p.Disturb != nil {
		if err := p.disturb(ctx); err != nil {
			return err
		}
	}
	for old := max(0, round-2); old <= round; old++ {
		if err := p.change(ctx, namespaceOf(old), round); err != nil {
			return err
		}
	}
	if round >= 3 {
		if err := p.insist(ctx, func() error {
			return p.client.CoreV1().Namespaces().Delete(ctx, namespaceOf(round-3), metav1.DeleteOptions{})
		}); err != nil {
			return err
		}
	}
	return pause(ctx, p.Pause)
}

func (p *play) disturb(ctx context.Context) error {
	if p.Quietly {
		if _, err := p.settle(ctx); err != nil {
			return err
		}
	}
	return p.Disturb(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func namespaceOf(round int) string { return fmt.Sprintf("round-%d", round) }

// create creates a namespace with one of everything.
func (p *play) create(ctx context.Context, ns string) error {
	c, opts := p.client, metav1.CreateOptions{}
	var web, doomed *appsv1.Deployment
	steps := []func() error{
		func() error {
			return only(c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{scenarioLabel: "true"}}}, opts))
		},
		func() error { return only(c.CoreV1().Services(ns).Create(ctx, service("web"), opts)) },
		func() (err error) {
			web, err = c.AppsV1().Deployments(ns).Create(ctx, deployment("web", 5), opts)
			return
		},
		func() (err error) {
			doomed, err = c.AppsV1().Deployments(ns).Create(ctx, deployment("doomed", 3), opts)
			return
		},
		func() error { return only(c.AppsV1().ReplicaSets(ns).Create(ctx, replicaSet("lone", 4), opts)) },
		func() error {
			return only(c.CoreV1().ReplicationControllers(ns).Create(ctx, replicationController("classic", 3), opts))
		},
		func() error { return only(c.BatchV1().Jobs(ns).Create(ctx, job("batch", 6, 3), opts)) },
		func() error { return only(c.CoreV1().ConfigMaps(ns).Create(ctx, ownedBy("kept", web), opts)) },
		func() error { return only(c.CoreV1().ConfigMaps(ns).Create(ctx, ownedBy("collected", doomed), opts)) },
	}
	for _, step := range steps {
		if err := p.insist(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func only[T any](_ T, err error) error { return err }

// change scales and rolls out the workloads of a namespace, deletes a Deployment for the garbage
// collector, and deletes pods.
func (p *play) change(ctx context.Context, ns string, round int) error {
	web, lone, classic := int32(2+p.random.IntN(6)), int32(1+p.random.IntN(6)), int32(1+p.random.IntN(4))
	image := fmt.Sprintf("image:%d", round)
	background := metav1.DeletePropagationBackground
	steps := []func() error{
		func() error { return p.updateDeployment(ctx, ns, "web", web, image) },
		func() error { return p.scaleReplicaSet(ctx, ns, "lone", lone) },
		func() error { return p.scaleController(ctx, ns, "classic", classic) },
		func() error { return p.deletePods(ctx, ns, "app=lone", 2) },
		func() error {
			return p.client.AppsV1().Deployments(ns).Delete(ctx, "doomed", metav1.DeleteOptions{PropagationPolicy: &background})
		},
	}
	for _, step := range steps {
		if err := p.insist(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) updateDeployment(ctx context.Context, ns, name string, replicas int32, image string) error {
	deployments := p.client.AppsV1().Deployments(ns)
	d, err := deployments.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image = &replicas, image
	return only(deployments.Update(ctx, d, metav1.UpdateOptions{}))
}

func (p *play) scaleReplicaSet(ctx context.Context, ns, name string, replicas int32) error {
	sets := p.client.AppsV1().ReplicaSets(ns)
	rs, err := sets.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	rs.Spec.Replicas = &replicas
	return only(sets.Update(ctx, rs, metav1.UpdateOptions{}))
}

func (p *play) scaleController(ctx context.Context, ns, name string, replicas int32) error {
	controllers := p.client.CoreV1().ReplicationControllers(ns)
	rc, err := controllers.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	rc.Spec.Replicas = &replicas
	return only(controllers.Update(ctx, rc, metav1.UpdateOptions{}))
}

// deletePods deletes at most n pods that match a selector; their owner replaces them.
func (p *play) deletePods(ctx context.Context, ns, selector string, n int) error {
	pods, err := p.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items[:min(n, len(pods.Items))] {
		if err := p.client.CoreV1().Pods(ns).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// insist retries a write until it succeeds, since others may write concurrently. It ignores that an
// object to delete is gone.
func (p *play) insist(ctx context.Context, write func() error) error {
	for {
		err := write()
		var answer apierrors.APIStatus
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case errors.As(err, &answer) && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)):
			return err
		}
		if stopped := pause(ctx, 200*time.Millisecond); stopped != nil {
			return fmt.Errorf("%w; the last error: %w", stopped, err)
		}
	}
}

// settle waits until nothing is left to do.
func (p *play) settle(ctx context.Context) (State, error) {
	var state State
	err := wait.PollUntilContextTimeout(ctx, time.Second, settlePatience, true, func(ctx context.Context) (bool, error) {
		now, err := ReadState(ctx, p.client)
		if err != nil {
			return false, nil // the server may be restarting
		}
		state = now
		return len(now.Unsettled) == 0, nil
	})
	if err != nil {
		return state, fmt.Errorf("the controllers do not come to an end: %w; this is not as it should be:\n%s", err, strings.Join(state.Unsettled, "\n"))
	}
	return state, nil
}
