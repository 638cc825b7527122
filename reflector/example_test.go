package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// printer is a sink that prints what it receives.
type printer struct{ done func() }

func (printer) Replace(objects object.Collection[thing], resourceVersion string) {
	fmt.Println(objects.Len(), "things at version", resourceVersion)
}

func (p printer) Add(deltas []object.Delta[thing], _ string) {
	for _, d := range deltas {
		fmt.Println(d.Type, d.Object.Name)
	}
	p.done()
}

func Example() {
	// A server that is unreachable at first, then serves two things, and then a third.
	server := &script{answers: []answer{
		failed(syscall.ECONNREFUSED),
		stream(got(added("a@1"), added("b@2"), initialEnd("2")), got(added("c@3")), end(io.EOF)),
	}}

	ctx, cancel := context.WithCancelCause(context.Background())
	r, err := reflector.New(reflector.Options[thing]{
		Source:   server,
		Sink:     printer{done: func() { cancel(errors.New("seen enough")) }},
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"},
		OnError:  func(e *reflector.Error) { fmt.Println(e) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", r.Run(ctx))
	fmt.Println(r.Status().Phase, "at version", r.Status().ResourceVersion)
	// Output:
	// things.example.com: connection refused: connection refused; check that the API server is running and the address
	// 2 things at version 2
	// Added c
	// stopped: seen enough
	// stopped at version 3
}
