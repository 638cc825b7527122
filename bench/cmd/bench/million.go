package main

import (
	"context"
	"fmt"
	"io"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

// millionBudget is the memory budget for a million pods, in bytes for each.
const millionBudget = 1 << 10

// printMillion measures Tidings with very many pods, which the server makes while it sends them, and client-go with a twentieth
// and a tenth of them, from which its memory is extrapolated.
func (s *session) printMillion(ctx context.Context, w io.Writer) error {
	n := s.size.million
	ours, err := s.large(ctx, engine.Tidings, n, int64(n)*millionBudget, server.Rate, measure.Settle)
	if err != nil {
		return err
	}
	few, err := s.large(ctx, engine.ClientGo, n/20, 0)
	if err != nil {
		return err
	}
	more, err := s.large(ctx, engine.ClientGo, n/10, 0)
	if err != nil {
		return err
	}
	// A twentieth more takes as much each time.
	theirs := more["heap total"] + 18*(more["heap total"]-few["heap total"])
	_, err = fmt.Fprintf(w, "%d pods: heap %.2f GB after the sync and %.2f GB after %d events at 1,000 a second; synced in %.0f s with a peak RSS of %.2f GB;\n"+
		"latency p50 %.1f ms, p99 %.1f ms, the slowest %.1f ms. client-go's heap would be about %.1f GB (%.2f GB at %d, %.2f GB at %d pods).\n",
		n, ours["heap total"]/1e9, ours["settled heap"]*float64(n)/1e9, s.size.millionEvents, ours["sync time"], ours["sync RSS"]/1e9,
		ours["latency p50"]/1e3, ours["latency p99"]/1e3, ours["latency max"]/1e3,
		theirs/1e9, few["heap total"]/1e9, n/20, more["heap total"]/1e9, n/10)
	return err
}

func (s *session) large(ctx context.Context, e engine.Name, objects int, budget int64, phases ...server.Phase) (out measure.Metrics, err error) {
	config := &server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: objects, Rate: s.size.millionEvents, OnTheFly: true}
	err = s.withServer(ctx, config, func(address server.Address) (err error) {
		stack := stackOn(config, address)
		stack.Engine, stack.Phases, stack.Config.Budget = e, phases, budget
		out, err = runMeasurement(ctx, measure.Spec{Stack: &stack}, nil)
		fmt.Fprintf(s.log, "%d pods, %s: %s\n", objects, e, out)
		return err
	})
	return out, err
}
