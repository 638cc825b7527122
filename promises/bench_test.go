package promises_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// feed is a source whose watch delivers the benchmark's events.
type feed struct{ batches chan []source.Event[pod] }

func (f feed) List(context.Context, source.ListOptions[pod], func(pod) error) (source.ListResult, error) {
	return source.ListResult{ResourceVersion: "1"}, nil
}

func (f feed) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	if opts.SendInitialEvents {
		return nil, invalid("sendInitialEvents: forbidden")
	}
	return feedWatch{f, ctx}, nil
}

type feedWatch struct {
	feed
	ctx context.Context
}

func (w feedWatch) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	select {
	case b := <-w.batches:
		return append(buf, b...), nil
	case <-w.ctx.Done():
		return buf, io.EOF
	}
}

func (w feedWatch) Close() error { return nil }

// BenchmarkEvent passes decoded events through queue, store, one index and the handlers. An operation is one event.
func BenchmarkEvent(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, handlers := range []int{1, 10} {
			b.Run(fmt.Sprintf("batch=%d/handlers=%d", size, handlers), func(b *testing.B) {
				benchmarkEvents(b, size, handlers)
			})
		}
	}
}

func benchmarkEvents(b *testing.B, size, handlers int) {
	const objects = 10_000
	f := feed{make(chan []source.Event[pod])}
	inf, err := tidings.NewInformer[pod](f, tidings.InformerOptions[pod]{Name: "pods"})
	if err != nil {
		b.Fatal(err)
	}
	inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
	var delivered atomic.Int64
	for range handlers {
		if _, err := inf.AddHandler(tidings.HandlerFuncs[pod]{
			Add:    func(pod, bool) { delivered.Add(1) },
			Update: func(_, _ pod) { delivered.Add(1) },
		}, tidings.HandlerOptions{Policy: tidings.Block, Buffer: 10_000}); err != nil {
			b.Fatal(err)
		}
	}
	if err := inf.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := inf.WaitForSync(b.Context()); err != nil {
		b.Fatal(err)
	}
	version := 1
	next := func() source.Event[pod] {
		version++
		p := newPod("default", fmt.Sprint("pod-", version%objects))
		p.ResourceVersion, p.UID = strconv.Itoa(version), "u"
		p.Spec.NodeName = fmt.Sprint("node-", version%objects%100)
		return source.Event[pod]{Type: source.Modified, Object: p, ResourceVersion: p.ResourceVersion}
	}
	batches := make([][]source.Event[pod], 0, b.N/size+1)
	for sent := 0; sent < b.N; sent += size {
		var batch []source.Event[pod]
		for range size {
			batch = append(batch, next())
		}
		batches = append(batches, batch)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, batch := range batches {
		f.batches <- batch
	}
	if err := inf.WaitForVersion(b.Context(), tidings.All, strconv.Itoa(version)); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if err := inf.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
