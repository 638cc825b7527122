package main

import (
	"context"

	"github.com/tidings/tidings/serve/internal/launch"
)

// replicaAgent is the user agent of replicas.
const replicaAgent = "tidings-serve"

// pair is two replicas behind one address, as a Service has.
type pair struct {
	launcher *launch.Launcher
	balancer *launch.Balancer
	replicas [2]*launch.Replica
}

func startPair(ctx context.Context, launcher *launch.Launcher) (*pair, error) {
	p := &pair{launcher: launcher}
	for i := range p.replicas {
		if err := p.start(ctx, i); err != nil {
			p.close()
			return nil, err
		}
	}
	balancer, err := launch.NewBalancer(p.replicas[0].Address(), p.replicas[1].Address())
	if err != nil {
		p.close()
		return nil, err
	}
	p.balancer = balancer
	return p, nil
}

// start starts a replica, or starts it again.
func (p *pair) start(ctx context.Context, i int) (err error) {
	p.replicas[i], err = p.launcher.Start(ctx, "--resources", "pods")
	if err == nil && p.balancer != nil {
		p.balancer.Replace(p.replicas[0].Address(), p.replicas[1].Address())
	}
	return err
}

func (p *pair) close() {
	for _, r := range p.replicas {
		if r != nil {
			r.Kill()
		}
	}
	if p.balancer != nil {
		p.balancer.Close()
	}
}
