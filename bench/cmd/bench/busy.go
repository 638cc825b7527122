package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// busyName is the name of the measurement of first syncs, and busyInformers the number of informers.
const (
	busyName      = "busy server"
	busyInformers = 60
)

// busyJobs are first syncs by both engines, as they are and with paged lists.
func (s size) busyJobs(kubeconfig string) (jobs []job) {
	for _, paged := range []bool{false, true} {
		prefix, env := "busy: ", []string(nil)
		if paged {
			prefix, env = "busy paged: ", noWatchList
		}
		for _, e := range engine.Both {
			spec := measure.Spec{Busy: &measure.Busy{
				Engine: e, Kubeconfig: kubeconfig, Objects: s.busy, Informers: busyInformers, Paged: paged,
			}}
			jobs = append(jobs, job{name: busyName, engine: e, prefix: prefix, env: env, spec: spec})
		}
	}
	return jobs
}

// measureBusy measures first syncs from the real control plane, on a machine whose cores are all busy.
func (s *session) measureBusy(ctx context.Context) (err error) {
	if s.size.busy == 0 || !strings.Contains(busyName, s.only) {
		return nil
	}
	plane, err := controlplane.Launch(ctx, controlplane.Options{UnsafeNoFsync: true})
	if err != nil {
		return fmt.Errorf("%s: %w", busyName, err)
	}
	defer func() { err = errors.Join(err, plane.Close(context.WithoutCancel(ctx))) }()
	if err := fill(ctx, plane.Config(), busyInformers, s.size.busy); err != nil {
		return fmt.Errorf("%s: %w", busyName, err)
	}
	defer spin()()
	for round := range s.size.rounds {
		for _, j := range s.size.busyJobs(plane.Kubeconfig()) {
			if err := s.measure(ctx, j, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill creates ConfigMaps of a kilobyte, evenly in namespaces.
func fill(ctx context.Context, config *rest.Config, namespaces, objects int) error {
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for i := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corpus.Part(i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	const writers = 16
	failed := make([]error, writers)
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(w)))
			for i := w; i < objects && failed[w] == nil; i += writers {
				failed[w] = fillOne(ctx, client, corpus.Part(i%namespaces), i, random)
			}
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

func fillOne(ctx context.Context, client kubernetes.Interface, namespace string, i int, random *rand.Rand) error {
	text := make([]byte, 1000)
	for k := range text {
		text[k] = byte('a' + random.IntN(26))
	}
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("settings-%05d", i), Labels: map[string]string{"app": "shop"}},
		Data:       map[string]string{"settings": string(text)},
	}
	_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, settings, metav1.CreateOptions{})
	return err
}

// spin keeps all cores busy until stop is called.
func spin() (stop func()) {
	var stopped atomic.Bool
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for !stopped.Load() {
			}
		})
	}
	return func() { stopped.Store(true); running.Wait() }
}
