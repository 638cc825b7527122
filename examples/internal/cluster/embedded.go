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

// Embedded runs an example against an API server within the process, to test what the example
// prints. Errors and leaked goroutines are printed too.
func Embedded(example Example) {
	p := &process{}
	tidingstest.CheckLeaks(p)
	config, end := embedded(p)
	if err := errors.Join(run(context.Background(), config, example), end()); err != nil {
		fmt.Println("error:", err)
	}
}

// embedded starts an API server within the process.
func embedded(p *process) (config *rest.Config, end func() error) {
	server := tidingstest.NewServer(p, tidingstest.ServerOptions{RequireNamespaces: true, GarbageCollector: true})
	return server.Config(), p.end
}

// process takes the place of the test that a tidingstest server requires: it collects errors and runs cleanups.
type process struct {
	testing.TB // nil: no other method is called

	errs     []error
	cleanups []func()
}

// Helper does nothing.
func (p *process) Helper() {}

// Errorf records an error, which end returns.
func (p *process) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// Error records an error, like Errorf.
func (p *process) Error(args ...any) { p.Errorf("%s", fmt.Sprintln(args...)) }

// Cleanup registers fn to be called by end, in reverse order.
func (p *process) Cleanup(fn func()) { p.cleanups = append(p.cleanups, fn) }

func (p *process) end() error {
	for _, fn := range slices.Backward(p.cleanups) {
		fn()
	}
	return errors.Join(p.errs...)
}
