package tail

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// replay is a recording that is followed in place of a cluster.
type replay struct {
	rec     *recording.Recording
	options recording.PlayOptions
	done    map[collection]<-chan struct{} // closed when the collection has been played
	wasIdle bool                           // when last checked, everything had been played and shown
}

// collection identifies what is followed.
type collection struct {
	resource                  schema.GroupVersionResource
	namespace, labels, fields string
}

// Replay follows a recording, and returns when everything has been shown. It ignores the options that select what to follow.
func Replay(ctx context.Context, rec *recording.Recording, options recording.PlayOptions, screen *cli.Screen, opts Options) error {
	r := &replay{rec: rec, options: options, done: map[collection]<-chan struct{}{}}
	connect := func(options tidings.Options) (*tidings.Factory, error) {
		options.Backoff = reflector.Backoff{Min: time.Millisecond, Max: time.Millisecond} // the recording includes the waits
		return tidings.NewSourceFactory(options), nil
	}
	return run(ctx, screen, opts, connect, func(t *tail, factory *tidings.Factory) error {
		t.replay = r
		return r.start(t, factory)
	})
}

// start makes an informer for every collection of the recording.
func (r *replay) start(t *tail, factory *tidings.Factory) error {
	tidings.SetSource(factory, func(scope tidings.Scope, namespace string) (source.ListerWatcher[object], error) {
		p, err := recording.Play[object](r.rec, scope.Source(namespace), r.options)
		if err == nil {
			r.done[collection{scope.Resource, namespace, scope.Labels, scope.Fields}] = p.Done()
		}
		return p, err
	})
	for _, c := range r.rec.Collections() {
		scope := tidings.Scope{Resource: c.Resource, Kind: c.Kind.Kind, Labels: c.Labels, Fields: c.Fields}
		if c.Namespace != "" {
			scope.Namespaces = []string{c.Namespace}
		}
		of := resources.Resource{GroupVersionResource: c.Resource, Kind: c.Kind.Kind, Namespaced: c.Namespace != ""}
		f, err := t.follow(factory, of, scope)
		if err != nil {
			return err
		}
		f.namespace = c.Namespace
		t.follows = append(t.follows, f)
	}
	if len(t.follows) == 0 {
		return errors.New("the recording is empty: nothing was listed or watched while it was made")
	}
	return t.run(factory)
}

// poll ends the run once everything has been played, and nothing has been waiting to be shown twice in a row.
func (r *replay) poll(observations []observation) error {
	if r == nil {
		return nil
	}
	for _, o := range observations {
		if o.pending > 0 {
			r.wasIdle = false
			return nil
		}
	}
	for _, done := range r.done {
		select {
		case <-done:
		default:
			return nil
		}
	}
	if r.wasIdle {
		return errDone
	}
	r.wasIdle = true
	return nil
}
