package cluster

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// embedded starts an API server inside the process.
func embedded() (config *rest.Config, end func() error) {
	p := &process{}
	server := tidingstest.NewServer(p, tidingstest.ServerOptions{RequireNamespaces: true, GarbageCollector: true})
	return server.Config(), p.end
}

// process stands in for the test that a server of package tidingstest belongs to: its errors and its end.
type process struct {
	testing.TB // nil: the server calls no method but these

	errs     []error
	cleanups []func()
}

// Helper does nothing.
func (p *process) Helper() {}

// Errorf notes an error, which end returns.
func (p *process) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// Cleanup lets end call fn.
func (p *process) Cleanup(fn func()) { p.cleanups = append(p.cleanups, fn) }

func (p *process) end() error {
	for _, fn := range p.cleanups {
		fn()
	}
	return errors.Join(p.errs...)
}
