package tail

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	done    []<-chan struct{} // closed when a collection has been played
	wasIdle bool              // when last checked, everything had been played and shown
}

// Replay follows a recording, and returns when everything has been shown. It ignores the options that select what to follow.
func Replay(ctx context.Context, rec *recording.Recording, options recording.PlayOptions, screen *cli.Screen, opts Options) error {
	r := &replay{rec: rec, options: options}
	connect := func(options tidings.Options) (*tidings.Factory, error) {
		options.Backoff = reflector.Backoff{Min: time.Millisecond, Max: time.Millisecond} // the recording includes the waits
		return tidings.NewSourceFactory(options), nil
	}
	return run(ctx, screen, opts, connect, func(t *tail, factory *tidings.Factory) error {
		t.replay = r
		return r.start(t, factory)
	})
}

// start makes an informer for every collection of the recording. Several may have one scope, so they cannot share one.
func (r *replay) start(t *tail, factory *tidings.Factory) error {
	seen := map[string]int{} // number of collections by scope
	for _, c := range r.rec.Collections() {
		options, key := r.options, fmt.Sprintf("%#v", c)
		options.Nth = seen[key]
		seen[key]++
		player, err := recording.Play[object](r.rec, c, options)
		if err != nil {
			return err
		}
		r.done = append(r.done, player.Done())
		if err := t.play(factory, c, player); err != nil {
			return err
		}
	}
	if len(t.follows) == 0 {
		return errors.New("the recording is empty: nothing was listed or watched while it was made")
	}
	return t.run(factory)
}

// play follows one collection of a recording.
func (t *tail) play(factory *tidings.Factory, c source.Scope, from source.ListerWatcher[object]) error {
	scope := tidings.Scope{Resource: c.Resource, Kind: c.Kind.Kind, Labels: c.Labels, Fields: c.Fields, Trim: c.Trim}
	if c.Namespace != "" {
		scope.Namespaces = []string{c.Namespace}
	}
	inf, err := tidings.UnsharedInformer(factory, scope, tidings.UnsharedOptions[object]{
		Source: func(tidings.Scope, string) (source.ListerWatcher[object], error) { return from, nil },
	})
	if err != nil {
		return err
	}
	f, err := t.follow(inf, resources.Resource{GroupVersionResource: c.Resource, Kind: c.Kind.Kind, Namespaced: c.Namespace != ""})
	if err != nil {
		return err
	}
	f.namespace = c.Namespace
	t.follows = append(t.follows, f)
	return nil
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
