package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// Embedded runs an example against an API server inside the process, for a test of what the example prints. An error is printed too, and
// so is a goroutine that the example leaves behind.
func Embedded(example Example) {
	p := &process{}
	tidingstest.CheckLeaks(p)
	config, end := embedded(p)
	if err := errors.Join(run(context.Background(), config, example), end()); err != nil {
		fmt.Println("error:", err)
	}
}

// embedded starts an API server inside the process.
func embedded(p *process) (config *rest.Config, end func() error) {
	server := tidingstest.NewServer(p, tidingstest.ServerOptions{RequireNamespaces: true, GarbageCollector: true})
	return server.Config(), p.end
}

// process stands in for the test that a server of package tidingstest belongs to: it has its errors and its end.
type process struct {
	testing.TB // nil: no other method is called

	errs     []error
	cleanups []func()
}

// Helper does nothing.
func (p *process) Helper() {}

// Errorf notes an error, which end returns.
func (p *process) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// Error notes errors as well.
func (p *process) Error(args ...any) { p.Errorf("%s", fmt.Sprintln(args...)) }

// Cleanup lets end call fn, after those that come later.
func (p *process) Cleanup(fn func()) { p.cleanups = append(p.cleanups, fn) }

func (p *process) end() error {
	for _, fn := range slices.Backward(p.cleanups) {
		fn()
	}
	return errors.Join(p.errs...)
}
