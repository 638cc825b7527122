// Package stories records what happens in a cluster, scene by scene: with the controllers of kube-controller-manager on
// a real API server, and a scheduler and kubelets that write what real ones write.
//
// The command line's tests play the recordings, and compare the story that it tells of them.
package stories

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest/controlplane"
	"github.com/tidings/tidings/upstream/internal/controllers"
)

// Record plays scenes one after another, and records each in a file NAME.tidings.gz of a folder. It replaces the files.
func Record(ctx context.Context, folder string, names []string, progress io.Writer) (err error) {
	scenes, err := named(names)
	if err != nil {
		return err
	}
	plane, err := controlplane.Launch(ctx, controlplane.Options{UnsafeNoFsync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Close(context.WithoutCancel(ctx))) }()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	w, err := newWorld(ctx, plane.Config())
	if err != nil {
		return err
	}
	running.Go(w.nodes.run)
	running.Go(func() {
		if err := w.runControllers(); err != nil && ctx.Err() == nil {
			fmt.Fprintln(progress, "the controllers ended:", err)
		}
	})
	for _, s := range scenes {
		fmt.Fprintln(progress, s.name)
		if err := w.record(s, filepath.Join(folder, s.name+".tidings.gz")); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (w *world) runControllers() error {
	config := as(w.config, "kube-controller-manager")
	factories, err := controllers.NewFactories(controllers.ClientGo, config)
	if err != nil {
		return err
	}
	return controllers.Run(w.ctx, config, factories, statefulSets, disruptions, w.autoscalers)
}

// as returns a configuration with which writes get this field manager.
func as(config *rest.Config, manager string) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = manager+"/v1.36.3", -1
	return config
}

// record plays one scene in a namespace of its own, which it shares with nobody.
func (w *world) record(s scene, file string) error {
	w.namespace = s.name
	if err := w.createNamespace(); err != nil {
		return err
	}
	if s.before != nil {
		if err := s.before(w); err != nil {
			return err
		}
	}
	if err := pause(w.ctx, time.Second); err != nil { // Events of what was before come a little later
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(out)
	defer out.Close()
	rec, err := recording.NewRecorder(packed, recording.Options{})
	if err != nil {
		return err
	}
	stop, err := w.watch(rec, append(s.kinds, usual...))
	if err != nil {
		return errors.Join(err, rec.Close())
	}
	err = s.play(w)
	err = errors.Join(err, pause(w.ctx, time.Second))
	stop()
	return errors.Join(err, rec.Close(), packed.Close())
}

// kind is what is recorded.
type kind struct {
	schema.GroupVersionResource
	kind    string
	cluster bool // it has no namespace: the object named like the scene's, or all nodes
}

func of(group, version, resource, name string) kind {
	return kind{schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, name, false}
}

// usual are the kinds that are recorded of every scene.
var usual = []kind{
	of("apps", "v1", "deployments", "Deployment"), of("apps", "v1", "replicasets", "ReplicaSet"),
	of("apps", "v1", "statefulsets", "StatefulSet"), of("batch", "v1", "jobs", "Job"),
	of("", "v1", "pods", "Pod"), of("", "v1", "events", "Event"),
	of("coordination.k8s.io", "v1", "leases", "Lease"),
}

// watch records the kinds until stop is called. It returns when all of them are known.
func (w *world) watch(rec *recording.Recorder, kinds []kind) (stop func(), err error) {
	factory, err := tidings.NewFactory(as(w.config, "tidings"), tidings.Options{Recorder: rec})
	if err != nil {
		return nil, err
	}
	stop = func() { _ = factory.Shutdown(context.WithoutCancel(w.ctx)) }
	var all []*tidings.SharedInformer[*unstructured.Unstructured]
	for _, k := range kinds {
		scope := tidings.Scope{Resource: k.GroupVersionResource, Kind: k.kind, Namespaces: []string{w.namespace}}
		if k.cluster {
			scope.Namespaces = nil
		}
		if k.kind == "Namespace" {
			scope.Fields = "metadata.name=" + w.namespace
		}
		informer, err := tidings.Informer[*unstructured.Unstructured](factory, scope)
		if err != nil {
			return nil, err
		}
		all = append(all, informer)
	}
	if err := factory.Start(w.ctx); err != nil {
		return nil, err
	}
	for _, informer := range all {
		if err := informer.WaitForSync(w.ctx); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
