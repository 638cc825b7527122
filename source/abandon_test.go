package source_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/source"
)

// deaf is a client that ignores contexts: its calls return when release is closed.
type deaf struct {
	release chan struct{}
	watch   *watch.FakeWatcher
}

func (d deaf) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	<-d.release
	return &corev1.PodList{}, nil
}

func (d deaf) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	<-d.release
	return d.watch, nil
}

// TestDeafClientIsAbandoned: a call that ignores the end of its context does not hold up the caller
// for more than a second, and a watch that comes too late is stopped.
func TestDeafClientIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := deaf{make(chan struct{}), watch.NewFake()}
		from, err := source.FromClient[*corev1.Pod](client, source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("enough")
		for name, call := range map[string]func(context.Context) error{
			"list": func(ctx context.Context) error {
				_, err := from.List(ctx, source.ListOptions[*corev1.Pod]{}, func(*corev1.Pod) error { return nil })
				return err
			},
			"watch": func(ctx context.Context) error {
				_, err := from.Watch(ctx, source.WatchOptions[*corev1.Pod]{})
				return err
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			began := time.Now()
			err := call(ctx)
			if took := time.Since(began); took != time.Minute+time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "did not return") {
				t.Errorf("%s: %v", name, err)
			}
		}
		close(client.release)
		synctest.Wait() // the goroutines of the calls end, or the bubble fails
		if !client.watch.IsStopped() {
			t.Error("a watch that came too late goes on")
		}
	})
}

// slow is a client that returns a while after its context has ended.
type slow struct{ deaf }

func (slow) List(ctx context.Context, _ metav1.ListOptions) (*corev1.PodList, error) {
	<-ctx.Done()
	time.Sleep(time.Second / 2)
	return nil, errors.New("canceled")
}

// TestSlowClientIsAwaited: a call that returns soon after the end of its context is not left behind.
func TestSlowClientIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, err := source.FromClient[*corev1.Pod](slow{}, source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = from.List(ctx, source.ListOptions[*corev1.Pod]{}, func(*corev1.Pod) error { return nil })
		if err == nil || err.Error() != "canceled" {
			t.Errorf("got %v", err)
		}
	})
}

// ending is a client that does not return.
type ending struct {
	deaf
	end func()
}

func (e ending) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	e.end()
	return nil, nil
}

func TestPanicOfClient(t *testing.T) {
	from, err := source.FromClient[*corev1.Pod](ending{end: func() { panic("oh") }}, source.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		value := recover()
		stack, ok := value.(interface{ Stack() []byte })
		if fmt.Sprint(value) != "oh" || !ok || !strings.Contains(string(stack.Stack()), "ending.List") {
			t.Errorf("got %v", value)
		}
	}()
	_, _ = from.List(t.Context(), source.ListOptions[*corev1.Pod]{}, nil)
}

func TestClientEndsItsGoroutine(t *testing.T) {
	from, err := source.FromClient[*corev1.Pod](ending{end: runtime.Goexit}, source.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.List(t.Context(), source.ListOptions[*corev1.Pod]{}, nil); err == nil {
		t.Error("no error")
	}
}
