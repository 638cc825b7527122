package measure

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/bench/internal/engine"
)

// Delivery measures the cost per change of one more handler.
type Delivery struct {
	Engine engine.Name
	Events int
}

const deliveryHandlers = 20

// Run sends the same number of changes to an informer with one handler and to one with many. The difference is
// due to the handlers.
func (d Delivery) Run(ctx context.Context) (Metrics, error) {
	driver, err := Writes{Engine: d.Engine, Objects: 1000, InFlight: 1000}.start(ctx)
	if err != nil {
		return nil, err
	}
	defer driver.cache.Stop()
	write := func() error { return driver.writeN(ctx, d.Events) }
	if err := write(); err != nil { // by then buffers have grown
		return nil, err
	}
	one, err := spend("", write)
	if err != nil {
		return nil, err
	}
	if err := driver.cache.AddHandlers(ctx, deliveryHandlers); err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	many, err := spend("", write)
	if err != nil {
		return nil, err
	}
	deliveries := float64(d.Events * deliveryHandlers)
	return Metrics{
		"delivery CPU":         float64(many.cpu-one.cpu) / deliveries,
		"delivery allocations": (float64(many.mallocs) - float64(one.mallocs)) / deliveries,
	}, nil
}
