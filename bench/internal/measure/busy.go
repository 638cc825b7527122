package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// Busy is the first sync of many informers of ConfigMaps of a real API server. Others keep the machine busy meanwhile.
type Busy struct {
	Engine     engine.Name
	Kubeconfig string
	Objects    int
	Informers  int  // each for a namespace with its share of the objects
	Paged      bool // whether Tidings uses paged lists; client-go has an environment variable for that
}

// Run measures until the handlers have been told of all objects.
func (b Busy) Run(ctx context.Context) (Metrics, error) {
	client, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("first sync: %w", err)
	}
	client.QPS = -1
	c, err := spend("", func() error { return b.sync(ctx, client) })
	return Metrics{"time": c.wall.Seconds(), "CPU": c.cpu.Seconds()}, err
}

func (b Busy) sync(ctx context.Context, client *rest.Config) error {
	var seen atomic.Int64
	all := make(chan struct{})
	config := engine.Config{
		Rest: client, Corpus: corpus.ConfigMaps, Encoding: server.Protobuf, Parts: b.Informers, Paged: b.Paged,
	}
	running, err := engine.Start(ctx, b.Engine, config, func(string) {
		if seen.Add(1) == int64(b.Objects) {
			close(all)
		}
	})
	if err != nil {
		return fmt.Errorf("first sync: %w", err)
	}
	select {
	case <-all:
	case <-ctx.Done():
		err = fmt.Errorf("first sync: %d of %d objects came: %w", seen.Load(), b.Objects, context.Cause(ctx))
	}
	return errors.Join(err, running.Stop())
}
