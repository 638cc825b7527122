// Package compare runs controllers of Kubernetes on two engines, each against its own control
// plane, and compares the results.
package compare

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/tidingstest/controlplane"
	"github.com/tidings/tidings/upstream/internal/scenario"
)

// Options configures a run.
type Options struct {
	// Program is the path of this module's binary, which is started to run the controllers.
	Program string
	// Dir is the folder for the controllers' logs. Profiles is the folder for their CPU and heap profiles, or empty.
	Dir, Profiles string
	// Rounds and Pause are passed to the scenario. RestartEvery restarts the API server in every
	// n-th round; 0 means never.
	Rounds       int
	Pause        time.Duration
	RestartEvery int
	Quietly      bool // restart when nothing is left to do
	Seed         uint64
	Logger       *slog.Logger
}

// Result is the result on one engine.
type Result struct {
	Engine string
	State  scenario.State
	Used   Usage
	Took   time.Duration
	// Kills and Restarts count how often the API server was killed, and shut down cleanly, and started again.
	Kills, Restarts int
}

// Run runs the scenario on an engine. It also returns an error if the controllers left something undone.
func Run(ctx context.Context, engine string, opts Options) (Result, error) {
	cp, err := controlplane.Launch(ctx, controlplane.Options{UnsafeNoFsync: true, Logger: opts.Logger})
	if err != nil {
		return Result{}, err
	}
	defer cp.Close(context.WithoutCancel(ctx))
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		return Result{}, err
	}
	logFile := filepath.Join(opts.Dir, engine+".log")
	controllers, err := startChild(logFile, opts.Program, "controllers", "--engine", engine, "--kubeconfig", cp.Kubeconfig(), "--profiles", opts.Profiles)
	if err != nil {
		return Result{}, err
	}
	result := Result{Engine: engine}
	begin, calls := time.Now(), 0
	restart := restarter{plane: cp, result: &result}
	result.State, err = scenario.Play(ctx, client, scenario.Options{
		Rounds: opts.Rounds, Pause: opts.Pause, Seed: opts.Seed, Quietly: opts.Quietly, Logger: opts.Logger.With("engine", engine),
		Disturb: func(ctx context.Context) error {
			if calls++; opts.RestartEvery == 0 || calls%opts.RestartEvery != 0 {
				return nil
			}
			return restart.next(ctx)
		},
	})
	if err != nil {
		controllers.kill()
		return result, fmt.Errorf("on %s: %w; the controllers' log is %s", engine, err, logFile)
	}
	result.Took = time.Since(begin)
	result.Used, err = controllers.stop()
	return result, err
}

// restarter restarts an API server, alternately after killing it and after a clean shutdown.
type restarter struct {
	plane  *controlplane.ControlPlane
	result *Result
}

func (r restarter) next(ctx context.Context) error {
	if r.result.Kills == r.result.Restarts {
		r.result.Kills++
		r.plane.Kill()
	} else {
		r.result.Restarts++
	}
	return r.plane.Restart(ctx) // stops it if it is running
}
