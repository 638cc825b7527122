package reflector

import (
	"context"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
)

// Hooks are what a holder can do that a sink cannot; each may be nil.
type Hooks[T object.Object] struct {
	Resume   func(context.Context) (intake.Contents, error)
	OnResume func(watch context.Context, recent string)
	Gather   func(n int) intake.Gathering[T]
}

// hooked is the holder of a sink with hooks.
type hooked[T object.Object] struct {
	intake.Open[T]
	hooks Hooks[T]
}

// Step does the work of one phase.
func (r *Reflector[T]) Step(ctx context.Context) error { return r.step(ctx) }

// HolderDecodes reports whether the holder decodes the objects of the source.
func (r *Reflector[T]) HolderDecodes() bool { return r.decoding != nil }

// NewHooked is New for a sink with hooks.
func NewHooked[T object.Object](opts Options[T], hooks Hooks[T]) (*Reflector[T], error) {
	open := intake.Open[T]{Previous: intake.Previous[T](opts.Previous), Sink: opts.Sink}
	opts.Sink = intake.AsSink[T]{Holder: hooked[T]{open, hooks}}
	return New(opts)
}

func (h hooked[T]) Resume(ctx context.Context) (intake.Contents, error) {
	if h.hooks.Resume == nil {
		return h.Open.Resume(ctx)
	}
	return h.hooks.Resume(ctx)
}

func (h hooked[T]) OnResume(watch context.Context, recent string) {
	if h.hooks.OnResume != nil {
		h.hooks.OnResume(watch, recent)
	}
}

func (h hooked[T]) Gather(n int) intake.Gathering[T] {
	if h.hooks.Gather == nil {
		return h.Open.Gather(n)
	}
	return h.hooks.Gather(n)
}
