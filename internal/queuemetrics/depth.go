package queuemetrics

import (
	"reflect"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/workqueue"
)

// depth counts the items that wait in a queue.
type depth interface {
	inc(workqueue.Priority)
	dec(workqueue.Priority)
}

func newDepth(name string, provider upstream.MetricsProvider, numberOf func(workqueue.Priority) int) depth {
	if numberOf == nil {
		return wholeDepth{provider.NewDepthMetric(name)}
	}
	// The type of the result is one of controller-runtime's internal packages, so that no interface here can have it.
	method := reflect.ValueOf(provider).MethodByName("NewDepthMetricWithPriority")
	if method.IsValid() && takes[string](method.Type()) {
		made := method.Call([]reflect.Value{reflect.ValueOf(name)})[0].Interface()
		if metric, ok := made.(numbered); ok {
			return depthByPriority{metric, numberOf}
		}
	}
	return wholeDepth{provider.NewDepthMetric(name)}
}

// takes reports whether a function has one argument, of type T, and one result.
func takes[T any](f reflect.Type) bool {
	return f.NumIn() == 1 && f.In(0) == reflect.TypeFor[T]() && f.NumOut() == 1
}

// wholeDepth is a depth without priorities.
type wholeDepth struct{ metric upstream.GaugeMetric }

func (d wholeDepth) inc(workqueue.Priority) { d.metric.Inc() }
func (d wholeDepth) dec(workqueue.Priority) { d.metric.Dec() }

// numbered is controller-runtime's depth for each priority.
type numbered interface {
	Inc(priority int)
	Dec(priority int)
}

type depthByPriority struct {
	metric   numbered
	numberOf func(workqueue.Priority) int
}

func (d depthByPriority) inc(p workqueue.Priority) { d.metric.Inc(d.numberOf(p)) }
func (d depthByPriority) dec(p workqueue.Priority) { d.metric.Dec(d.numberOf(p)) }
