package source

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// abandonAfter is how long a call of a client may go on after its context has ended.
const abandonAfter = time.Second

var errNoReturn = errors.New("the client ended its goroutine instead of returning")

// abandonedError says that a call of a client was abandoned. It wraps the reason why its context ended.
type abandonedError struct{ cause error }

func (e abandonedError) Error() string {
	return fmt.Sprintf("the client's call did not return within %v of its end: %v", abandonAfter, e.cause)
}

func (e abandonedError) Unwrap() error { return e.cause }

// clientPanic is a panic of a client, with the stack of its goroutine.
type clientPanic struct {
	value any
	stack []byte
}

// String returns the text of the panic's value.
func (p clientPanic) String() string { return fmt.Sprint(p.value) }

// Stack returns the stack of the goroutine that panicked.
func (p clientPanic) Stack() []byte { return p.stack }

// callAbandonable calls fn, which should return when ctx ends, but may be a function that takes no
// context. If it has not returned abandonAfter the end of ctx, it is abandoned: its goroutine
// remains until it returns, and then late gets the result, unless that is an error. late may be
// nil.
func callAbandonable[R any](ctx context.Context, fn func() (R, error), late func(R)) (R, error) {
	type returned struct {
		result R
		err    error
		panic  *clientPanic
	}
	returns := make(chan returned)
	abandoned := make(chan struct{})
	go func() {
		r := returned{err: errNoReturn}
		defer func() {
			if value := recover(); value != nil {
				r.panic = &clientPanic{value, debug.Stack()}
			}
			select {
			case returns <- r:
			case <-abandoned:
				if r.err == nil && r.panic == nil && late != nil {
					late(r.result)
				}
			}
		}()
		r.result, r.err = fn()
	}()
	take := func(r returned) (R, error) {
		if r.panic != nil {
			panic(*r.panic)
		}
		return r.result, r.err
	}
	select {
	case r := <-returns:
		return take(r)
	case <-ctx.Done():
	}
	timer := time.NewTimer(abandonAfter)
	defer timer.Stop()
	select {
	case r := <-returns:
		return take(r)
	case <-timer.C:
		close(abandoned)
		var none R
		return none, abandonedError{context.Cause(ctx)}
	}
}
