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

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/marks"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/report"
	"github.com/tidings/tidings/bench/internal/server"
)

// session is one run of everything.
type session struct {
	size size
	only string
	log  io.Writer
	dir  string // for what jobs save

	measured bool // whether anything was measured
	samples  report.Samples
	profiles []report.Profile
	churn    measure.Metrics
}

// writeResults measures everything and writes the page with its pictures, or prints the page if path is empty.
func (s *session) writeResults(ctx context.Context, path string) error {
	start := time.Now()
	var err error
	if s.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return fmt.Errorf("make a folder for what is saved: %w", err)
	}
	defer os.RemoveAll(s.dir)
	for _, stage := range s.size.stages() {
		if err := s.run(ctx, stage); err != nil {
			return err
		}
	}
	if err := s.measurePrograms(ctx); err != nil {
		return err
	}
	if err := s.measureChurn(ctx); err != nil {
		return err
	}
	if err := s.measureOperators(ctx); err != nil {
		return err
	}
	if err := s.measureBusy(ctx); err != nil {
		return err
	}
	if !s.measured {
		return fmt.Errorf("no measurement has %q in its name; names are: %s", s.only, strings.Join(s.names(), "; "))
	}
	million, err := marks.Find(path, report.MillionPart)
	if err != nil {
		return fmt.Errorf("read the results that were there: %w", err)
	}
	page := report.Page{
		Million: million,
		Samples: &s.samples, Profiles: s.profiles, Churn: s.churn, ChurnEvents: s.size.churn,
		Counts: s.size.counts, Unstructured: s.size.json, Sustained: s.size.sustained,
		Informers: s.size.informers, Busy: s.size.busy, Secrets: s.size.secrets,
		ConfigMaps: s.size.configMaps, Night: s.size.night, Deaf: s.size.deaf, Readers: s.size.readers,
		Took: time.Since(start),
	}
	text, err := page.Markdown()
	if err != nil {
		return err
	}
	if path == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := page.WritePictures(filepath.Join(filepath.Dir(path), report.PictureFolder)); err != nil {
		return err
	}
	fmt.Fprintf(s.log, "wrote %s after %s\n", path, time.Since(start).Round(time.Second))
	return nil
}

// names returns the names of all measurements.
func (s *session) names() []string {
	out := []string{"churn", "programs", busyName}
	for _, stage := range s.size.stages() {
		for _, j := range stage.jobs(server.Address{}) {
			out = append(out, j.name)
		}
	}
	for _, j := range s.size.operatorJobs() {
		out = append(out, j.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// printChurn measures the churn only.
func (s *session) printChurn(ctx context.Context, w io.Writer) error {
	if err := s.measureChurn(ctx); err != nil {
		return err
	}
	_, err := io.WriteString(w, report.ChurnTable(s.churn, s.size.churn))
	return err
}

// run runs the jobs of a stage repeatedly, in turn, so that disturbances of the machine affect all of them. Every
// other round is in reverse order.
func (s *session) run(ctx context.Context, st stage) error {
	wanted := func(j job) bool { return strings.Contains(j.String(), s.only) }
	if !slices.ContainsFunc(st.jobs(server.Address{}), wanted) {
		return nil
	}
	return s.withServer(ctx, st.server, func(address server.Address) error {
		jobs := st.jobs(address)
		for round := range st.rounds {
			for _, j := range jobs {
				if !wanted(j) || j.rounds > 0 && round >= j.rounds {
					continue
				}
				if !s.budget(&j) {
					continue
				}
				s.place(&j)
				if err := s.measure(ctx, j.forRound(round), round); err != nil {
					return err
				}
			}
			slices.Reverse(jobs)
		}
		return s.profile(ctx, st, address)
	})
}

// budget sets a job's budget. It returns false if client-go has not been measured yet.
func (s *session) budget(j *job) bool {
	if j.budgetOf == "" {
		return true
	}
	theirs, ok := s.samples.Get(engine.ClientGo, j.budgetOf)
	stack := *j.spec.Stack
	stack.Config.Budget = int64(theirs.Median / 5)
	j.spec.Stack = &stack
	return ok && stack.Config.Budget > 0
}

// place sets a job's directory.
func (s *session) place(j *job) {
	if j.dir == "" {
		return
	}
	stack := *j.spec.Stack
	stack.Config.Dir = filepath.Join(s.dir, j.dir)
	j.spec.Stack = &stack
}

func (s *session) measure(ctx context.Context, j job, round int) error {
	start := time.Now()
	metrics, err := runMeasurement(ctx, j.spec, j.env)
	if err != nil {
		return fmt.Errorf("%s: %w", j, err)
	}
	s.measured = true
	s.samples.Add(j.engine, j.prefix, metrics)
	fmt.Fprintf(s.log, "round %d, %s, %s: %s\n", round+1, j, time.Since(start).Round(time.Millisecond), metrics)
	return nil
}

// withServer starts a server for f, if f needs one.
func (s *session) withServer(ctx context.Context, c *server.Config, f func(server.Address) error) error {
	if c == nil {
		return f(server.Address{})
	}
	address, stop, err := startServer(ctx, *c)
	if err != nil {
		return err
	}
	if err := f(address); err != nil {
		_ = stop() // the first error says more
		return err
	}
	return stop()
}

// profile has Tidings sync and receive events once more, and takes a CPU profile.
func (s *session) profile(ctx context.Context, st stage, address server.Address) error {
	if s.only != "" || st.profile == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer os.RemoveAll(dir)
	stack := stackOn(st.server, address)
	events := server.Burst
	if st.server.Sustained > 0 {
		events = server.Sustained
	}
	stack.Engine, stack.Phases = engine.Tidings, []server.Phase{events}
	stack.Profiles = map[server.Phase]string{
		measure.Sync: filepath.Join(dir, "sync"),
		events:       filepath.Join(dir, "events"),
	}
	if _, err := runMeasurement(ctx, measure.Spec{Stack: &stack}, nil); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	for _, phase := range []server.Phase{measure.Sync, events} {
		p, err := report.ReadProfile(stack.Profiles[phase], fmt.Sprintf("%s, %s", st.profile, phase))
		if err != nil {
			return err
		}
		s.profiles = append(s.profiles, p)
	}
	return nil
}

// measurePrograms builds and runs a small program for each engine.
func (s *session) measurePrograms(ctx context.Context) error {
	if !strings.Contains("programs", s.only) {
		return nil
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, e := range engine.Both {
		if err := buildProgram(ctx, e, filepath.Join(dir, string(e))); err != nil {
			return err
		}
	}
	pods := &server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 10}
	return s.withServer(ctx, pods, func(address server.Address) error {
		for round := range s.size.rounds {
			for _, e := range engine.Both {
				spec := measure.Spec{Program: &measure.Program{Path: filepath.Join(dir, string(e)), Server: address}}
				if err := s.measure(ctx, job{name: "programs", engine: e, spec: spec}, round); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (s *session) measureChurn(ctx context.Context) error {
	if !strings.Contains("churn", s.only) {
		return nil
	}
	config := &server.Config{
		Encoding:   server.Protobuf,
		Corpus:     corpus.Pods,
		Objects:    1000,
		Churn:      s.size.churn,
		Generation: s.size.alive,
	}
	return s.withServer(ctx, config, func(address server.Address) (err error) {
		stack := stackOn(config, address)
		stack.Engine, stack.Phases = engine.Tidings, []server.Phase{server.Churn}
		s.measured = true
		s.churn, err = runMeasurement(ctx, measure.Spec{Stack: &stack}, nil)
		return err
	})
}
