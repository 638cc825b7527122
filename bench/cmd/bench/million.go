package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/marks"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/report"
	"github.com/tidings/tidings/bench/internal/server"
)

// leastMillion is the minimum number of pods of the command.
const leastMillion = 2000

// millionBudget is the memory budget for a million pods, in bytes per pod.
const millionBudget = 1 << 10

// million measures Tidings with very many pods, which the server generates while sending them, and
// client-go with a twentieth and a tenth of them, from which its memory is extrapolated. It prints
// the figures and writes them into their part of the page at path, which the next full run keeps.
func (s *session) million(ctx context.Context, path string) error {
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
	text := report.Million{Objects: n, Events: s.size.millionEvents, Tidings: ours, Few: few, More: more}.Markdown()
	if _, err = io.WriteString(os.Stdout, text); err != nil || path == "" {
		return err
	}
	if err := marks.Replace(path, map[string]string{report.MillionPart: text}); err != nil {
		return fmt.Errorf("write the results (make bench writes the page): %w", err)
	}
	fmt.Fprintf(s.log, "wrote a part of %s\n", path)
	return nil
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
