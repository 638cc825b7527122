package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/operator"
)

// replicaEnv makes this program a replica with that name. dirEnv is the folder of its locks.
const (
	replicaEnv = "DEMO_REPLICA"
	dirEnv     = "DEMO_DIR"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// The annotations of a ConfigMap say to which revision it was set, and which one was reconciled.
const revisionKey, reconciledKey = "demo/revision", "demo/reconciled"

// runReplica runs a controller that copies one annotation of ConfigMaps to another. Sharding is the option Shards.
func runReplica(ctx context.Context, name string) error {
	config, err := operator.LoadConfig("")
	if err != nil {
		return err
	}
	config.QPS = -1 // the server has its own limits
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	op, err := operator.New(config, operator.Options{
		Lease: tidings.Key{Namespace: "default", Name: "copier"}, Shards: 30,
	})
	if err != nil {
		return err
	}
	held, err := tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{Labels: "demo"})
	if err != nil {
		return err
	}
	writes, err := client.New[*corev1.ConfigMap](op.Config, configMaps)
	if err != nil {
		return err
	}
	copier := controller.New("copier", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		defer lock(name, key)()
		cm, ok := held.Get(key)
		if !ok || cm.Annotations[reconciledKey] == cm.Annotations[revisionKey] {
			return controller.Result{}, nil
		}
		cm = cm.DeepCopy()
		cm.Annotations[reconciledKey] = cm.Annotations[revisionKey]
		_, err := writes.Update(ctx, cm)
		return controller.Result{}, err
	}, controller.Options{Workers: 4})
	if err := errors.Join(controller.WatchKeys(copier, held), op.Manager.Add(copier)); err != nil {
		return err
	}
	return op.Run(ctx)
}

// lock makes the file of a key that is reconciled. If there is one, another replica reconciles the key.
func lock(name string, key tidings.Key) (unlock func()) {
	file := strings.ReplaceAll(key.String(), "/", "-")
	path := filepath.Join(os.Getenv(dirEnv), "lock-"+file)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		overlap := filepath.Join(os.Getenv(dirEnv), "overlap-"+file)
		_ = os.WriteFile(overlap, []byte(name), 0o600)
		return func() {}
	}
	fmt.Fprint(f, name)
	f.Close()
	return func() { _ = os.Remove(path) }
}

// replicas are the child processes.
type replicas struct {
	kubeconfig, dir string
	running         map[string]*exec.Cmd
}

func (r *replicas) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), replicaEnv+"="+name, dirEnv+"="+r.dir, "KUBECONFIG="+r.kubeconfig)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if r.running == nil {
		r.running = map[string]*exec.Cmd{}
	}
	r.running[name] = cmd
	return nil
}

// stop asks a replica to end, and waits for that.
func (r *replicas) stop(name string) error {
	cmd := r.running[name]
	delete(r.running, name)
	timer := time.AfterFunc(closeTime, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = cmd.Process.Kill() // it has ended already, or the system has no such signal
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *replicas) stopAll() error {
	var errs []error
	for name := range maps.Clone(r.running) {
		errs = append(errs, r.stop(name))
	}
	return errors.Join(errs...)
}

// kill ends a replica at once, and removes the locks that it had.
func (r *replicas) kill(name string) error {
	cmd := r.running[name]
	delete(r.running, name)
	_ = cmd.Process.Kill() // fails only if it has already ended
	_ = cmd.Wait()
	locks, err := filepath.Glob(filepath.Join(r.dir, "lock-*"))
	for _, path := range locks {
		if by, _ := os.ReadFile(path); string(by) == name {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

func (r *replicas) killAll() {
	for _, cmd := range r.running {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
