package engine

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestHandlerWaitsForAnotherInformer: a handler that stops another informer waits for its end, as everybody does.
func TestHandlerWaitsForAnotherInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		other := New(Config[settings]{
			Name: "others", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil },
			OnEnd:     func() { time.Sleep(time.Second); ended = true },
		})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := namedSettings(1)
		o.ResourceVersion = "5"
		inf := startOf(t, &answering{items: []settings{o}})
		stopped := make(chan error, 1)
		_, err := inf.Subscribe(func(object.Delta[settings]) {
			err := other.Stop(t.Context())
			if !ended || !closed(other.Done()) {
				t.Error("the stop returned before the informer had ended")
			}
			stopped <- err
		}, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
