package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/tidings/tidings/bench/internal/server"
)

// Program measures a small program that lists some pods and exits: its size, and the cost of its start.
type Program struct {
	Path   string
	Server server.Address
}

// Run runs the program.
func (p Program) Run(ctx context.Context) (Metrics, error) {
	info, err := os.Stat(p.Path)
	if err != nil {
		return nil, fmt.Errorf("measure a program: %w", err)
	}
	authority, err := os.CreateTemp("", "bench-ca-")
	if err != nil {
		return nil, fmt.Errorf("measure a program: %w", err)
	}
	defer os.Remove(authority.Name())
	if _, err := authority.Write(p.Server.CA); err != nil {
		return nil, fmt.Errorf("measure a program: %w", err)
	}
	if err := authority.Close(); err != nil {
		return nil, fmt.Errorf("measure a program: %w", err)
	}
	start := time.Now()
	cmd := exec.CommandContext(ctx, p.Path, p.Server.Host, authority.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", p.Path, err, out)
	}
	wall := time.Since(start)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, fmt.Errorf("%s: the system does not tell what it used", p.Path)
	}
	return Metrics{
		"binary": float64(info.Size()), "start time": float64(wall.Microseconds()) / 1000, "start CPU": float64(used(*usage).Microseconds()) / 1000,
		"start RSS": float64(usage.Maxrss) * 1024,
	}, nil
}
