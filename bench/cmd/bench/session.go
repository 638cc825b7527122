package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/report"
	"github.com/tidings/tidings/bench/internal/server"
)

// session is one run of everything.
type session struct {
	size size
	only string
	log  io.Writer

	measured bool // something was
	samples  report.Samples
	profiles []report.Profile
	churn    measure.Metrics
}

// writeResults measures everything and writes the page, to the standard output without a path.
func (s *session) writeResults(ctx context.Context, path string) error {
	start := time.Now()
	for _, step := range []func(context.Context) error{s.measurePods, s.measureJSON, s.measureLoops, s.measureChurn} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !s.measured {
		return fmt.Errorf("no measurement has %q in its name; names have: stack, json, guard, writes, batches, delivery, index, queue, churn, client-go, tidings", s.only)
	}
	page := report.Page{
		Samples: &s.samples, Profiles: s.profiles, Churn: s.churn, ChurnEvents: s.size.churn,
		Pods: s.size.pods, Rounds: s.size.rounds, Took: time.Since(start),
	}
	text, err := page.Markdown()
	if err != nil {
		return err
	}
	if path == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	fmt.Fprintf(s.log, "wrote %s after %s\n", path, time.Since(start).Round(time.Second))
	return nil
}

// printChurn measures the churn alone.
func (s *session) printChurn(ctx context.Context, w io.Writer) error {
	if err := s.measureChurn(ctx); err != nil {
		return err
	}
	_, err := io.WriteString(w, report.ChurnTable(s.churn, s.size.churn))
	return err
}

// withServer starts a server for f.
func (s *session) withServer(ctx context.Context, c server.Config, f func(host string) error) error {
	host, stop, err := startServer(ctx, c)
	if err != nil {
		return err
	}
	if err := f(host); err != nil {
		_ = stop() // the first error says more
		return err
	}
	return stop()
}

// rounds runs the jobs again and again, in turn, so that what disturbs the machine disturbs all. Every other
// round is in reverse.
func (s *session) rounds(ctx context.Context, n int, jobs []job) error {
	for round := range n {
		for _, j := range jobs {
			if err := s.run(ctx, j, round); err != nil {
				return err
			}
		}
		slices.Reverse(jobs)
	}
	return nil
}

// wants reports whether any of the jobs is to be run.
func (s *session) wants(jobs []job) bool {
	return slices.ContainsFunc(jobs, func(j job) bool { return strings.Contains(describe(j), s.only) })
}

func (s *session) run(ctx context.Context, j job, round int) error {
	if !s.wants([]job{j}) {
		return nil
	}
	start := time.Now()
	metrics, err := runMeasurement(ctx, j.spec, j.env)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(j), err)
	}
	s.measured = true
	s.samples.Add(j.engine, j.prefix, metrics)
	fmt.Fprintf(s.log, "round %d, %s, %s: %s\n", round+1, describe(j), time.Since(start).Round(time.Millisecond), metrics)
	return nil
}

func (s *session) measurePods(ctx context.Context) error {
	if !s.wants(append(s.size.stackJobs(""), s.size.guardJobs("")...)) {
		return nil
	}
	config := server.Config{Encoding: server.Protobuf, Pods: s.size.pods, Burst: s.size.burst, Rate: s.size.rate}
	return s.withServer(ctx, config, func(host string) error {
		if err := s.rounds(ctx, s.size.rounds, s.size.stackJobs(host)); err != nil {
			return err
		}
		if err := s.rounds(ctx, 1, s.size.guardJobs(host)); err != nil {
			return err
		}
		return s.profile(ctx, host, server.Protobuf, "typed pods from protobuf")
	})
}

func (s *session) measureJSON(ctx context.Context) error {
	if !s.wants(s.size.jsonJobs("")) {
		return nil
	}
	config := server.Config{Encoding: server.JSON, Pods: s.size.pods / 5, Burst: s.size.burst / 5}
	return s.withServer(ctx, config, func(host string) error {
		if err := s.rounds(ctx, s.size.rounds, s.size.jsonJobs(host)); err != nil {
			return err
		}
		return s.profile(ctx, host, server.JSON, "unstructured pods from JSON")
	})
}

func (s *session) measureLoops(ctx context.Context) error {
	return s.rounds(ctx, s.size.rounds, append(s.size.writeJobs(), s.size.loopJobs()...))
}

// profile lets Tidings sync and take events once more, and looks where the time goes.
func (s *session) profile(ctx context.Context, host string, encoding server.Encoding, title string) error {
	if s.only != "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer os.RemoveAll(dir)
	files := map[server.Phase]string{measure.Sync: filepath.Join(dir, "sync"), server.Burst: filepath.Join(dir, "burst")}
	config := engine.Config{Host: host, Encoding: encoding}
	stack := &measure.Stack{Engine: engine.Tidings, Config: config, Phases: []server.Phase{server.Burst}, Profiles: files}
	if _, err := runMeasurement(ctx, measure.Spec{Stack: stack}, nil); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	for _, phase := range []server.Phase{measure.Sync, server.Burst} {
		p, err := report.ReadProfile(files[phase], fmt.Sprintf("%s, %s", title, phase))
		if err != nil {
			return err
		}
		s.profiles = append(s.profiles, p)
	}
	return nil
}

func (s *session) measureChurn(ctx context.Context) error {
	if !strings.Contains("churn", s.only) {
		return nil
	}
	config := server.Config{Encoding: server.Protobuf, Pods: 1000, Churn: s.size.churn, Generation: s.size.alive}
	return s.withServer(ctx, config, func(host string) (err error) {
		stack := &measure.Stack{
			Engine: engine.Tidings, Phases: []server.Phase{server.Churn},
			Config: engine.Config{Host: host, Encoding: server.Protobuf},
		}
		s.measured = true
		s.churn, err = runMeasurement(ctx, measure.Spec{Stack: stack}, nil)
		return err
	})
}
