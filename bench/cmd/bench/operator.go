package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/operator"
	"github.com/tidings/tidings/bench/internal/report"
)

// operatorJob measures what operators do, in processes of the command operator.
type operatorJob struct {
	name   string // and the prefix of its metrics
	server *operator.Server
	only   engine.Name // empty means both
	what   operator.Measurement
}

func (s size) operatorJobs() []operatorJob {
	late := operator.Duplicates{Late: 2 * time.Second, Rounds: 20}
	waiting := late
	waiting.ReadYourWrites = true
	jobs := []operatorJob{
		{name: "three forms", server: &operator.Server{Kind: operator.Pods, Objects: s.configMaps},
			what: operator.Measurement{Forms: &operator.Forms{}}},
		{name: "noting", only: engine.Tidings, what: operator.Measurement{Noting: &operator.Noting{}}},
		{name: "duplicates", what: operator.Measurement{Duplicates: &late}},
		{name: "duplicates waiting", what: operator.Measurement{Duplicates: &waiting}},
	}
	for _, writes := range []operator.Writes{operator.Controller, operator.Gated, operator.Waiting} {
		jobs = append(jobs, operatorJob{name: "jobs " + string(writes), only: engine.Tidings,
			what: operator.Measurement{Jobs: &operator.Jobs{Objects: operator.JobObjects, Writes: writes}}})
	}
	for _, writes := range []operator.Writes{operator.TheirOption, operator.Unaware} {
		jobs = append(jobs, operatorJob{name: "jobs " + string(writes), only: engine.ClientGo,
			what: operator.Measurement{Jobs: &operator.Jobs{Objects: operator.JobObjects, Writes: writes}}})
	}
	for _, few := range []struct {
		server operator.Server
		reads  operator.Reads
	}{
		{operator.Server{Objects: s.secrets, Bytes: 8000}, operator.Reads{Kind: operator.Secrets, Read: 20, Times: 10}},
		{operator.Server{Objects: s.configMaps, Bytes: 2000},
			operator.Reads{Kind: operator.ConfigMaps, Read: s.configMaps / 100, Times: 1}},
	} {
		few.server.Kind = few.reads.Kind
		name, budgeted := "few "+string(few.reads.Kind), few.reads
		budgeted.Budget = int64(few.server.Objects) * report.OnDemandBudget
		jobs = append(jobs,
			operatorJob{name: name, server: &few.server, what: operator.Measurement{Reads: &few.reads}},
			operatorJob{name: name + " budget", server: &few.server, only: engine.Tidings,
				what: operator.Measurement{Reads: &budgeted}},
		)
	}
	return jobs
}

// measureOperators builds the command operator and runs its measurements.
func (s *session) measureOperators(ctx context.Context) error {
	jobs := slices.DeleteFunc(s.size.operatorJobs(), func(j operatorJob) bool { return !strings.Contains(j.name, s.only) })
	if len(jobs) == 0 {
		return nil
	}
	program := filepath.Join(s.dir, "operator")
	const folder = "github.com/tidings/tidings/bench/cmd/operator"
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, folder).CombinedOutput(); err != nil {
		return fmt.Errorf("build the command operator (run this in the folder bench): %w\n%s", err, out)
	}
	for _, j := range jobs {
		if err := s.measureOperator(ctx, program, j); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	return nil
}

func (s *session) measureOperator(ctx context.Context, program string, j operatorJob) error {
	if j.server != nil {
		host, stop, err := serveOperator(ctx, program, *j.server)
		if err != nil {
			return err
		}
		defer stop()
		j.what.Host = host
	}
	for round := range s.size.rounds {
		for _, e := range engine.Both {
			if j.only != "" && e != j.only {
				continue
			}
			start := time.Now()
			j.what.Engine = e
			metrics, err := runOperator(ctx, program, j.what)
			if err != nil {
				return err
			}
			s.measured = true
			s.samples.Add(e, j.name+": ", metrics)
			fmt.Fprintf(s.log, "round %d, %s, %s, %s: %s\n", round+1, j.name, e,
				time.Since(start).Round(time.Millisecond), metrics)
		}
	}
	return nil
}

// serveOperator starts a server process and returns its address.
func serveOperator(ctx context.Context, program string, server operator.Server) (host string, stop func(), err error) {
	cmd, err := operatorCommand(ctx, program, "serve", server)
	if err != nil {
		return "", nil, err
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = input.Close()
		_, _ = io.Copy(io.Discard, output)
		_ = cmd.Wait() // what was measured counts
	}
	if err := json.NewDecoder(output).Decode(&host); err != nil {
		stop()
		return "", nil, fmt.Errorf("the server ended before it listened: %w", err)
	}
	return host, stop, nil
}

func runOperator(ctx context.Context, program string, m operator.Measurement) (metrics measure.Metrics, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd, err := operatorCommand(ctx, program, "measure", m)
	if err != nil {
		return nil, err
	}
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run a measurement: %w", err)
	}
	return metrics, json.NewDecoder(bytes.NewReader(output)).Decode(&metrics)
}

func operatorCommand(ctx context.Context, program, role string, config any) (*exec.Cmd, error) {
	argument, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, role, string(argument))
	cmd.Stderr = os.Stderr
	return cmd, nil
}
