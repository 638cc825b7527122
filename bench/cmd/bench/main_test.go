package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// TestMain lets the test's program be a server or a measurement, as bench itself is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && (os.Args[1] == "serve" || os.Args[1] == "measure") {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var tiny = size{
	rounds: 1, latencyRounds: 1, json: 60, burst: 50, sustained: 60, busiest: 60, rate: 100,
	informers: 100, objects: 200, events: 500, churn: 800, alive: 20,
	night: 60, day: 200, each: 2 * time.Millisecond, idle: time.Millisecond, deaf: 5 * time.Minute, secrets: 100,
	configMaps: 200,
	readers:    200, readersPart: 100,
	counts: map[corpus.Name]int{},
}

func init() {
	for _, name := range corpus.All {
		tiny.counts[name] = 60
	}
}

// TestResults measures everything with tiny sizes.
func TestResults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs more than a hundred measurements")
	}
	dir := t.TempDir()
	s := &session{size: tiny, log: io.Discard}
	if err := s.writeResults(t.Context(), filepath.Join(dir, "RESULTS.md")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "not measured") || strings.HasPrefix(line, "|") && strings.Contains(line, "| – | –") {
			t.Errorf("not all was measured: %s", line)
		}
	}
	for _, file := range []string{"memory-light.svg", "cpu-dark.svg", "deaf-light.svg", "day-dark.svg"} {
		picture, err := os.ReadFile(filepath.Join(dir, "pictures", file))
		if err != nil || strings.Count(string(picture), "<rect")+strings.Count(string(picture), "<polyline") < 4 {
			t.Errorf("%s: %v\n%s", file, err, picture)
		}
	}
}

// TestMillion writes what it measured into the page, where it stays.
func TestMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("runs measurements of thousands of pods")
	}
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	s := &session{size: tiny, only: "queue", log: io.Discard}
	s.size.million, s.size.millionEvents = leastMillion, 100
	if err := s.writeResults(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := s.million(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := s.writeResults(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "2,000 pods in one process") {
		t.Errorf("%v: the page has lost what was measured:\n%s", err, text)
	}
}

func TestNothingHasThatName(t *testing.T) {
	s := &session{size: tiny, only: "no such thing", log: io.Discard}
	if err := s.writeResults(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "few-replicas") {
		t.Errorf("got %v, want an error that lists the names", err)
	}
}

func TestUnknownCommand(t *testing.T) {
	if err := run(t.Context(), []string{"-quick", "everything"}); err == nil || !strings.Contains(err.Error(), "everything") {
		t.Errorf("got %v, want an error that names the command", err)
	}
}

func TestNegativeNumbers(t *testing.T) {
	for _, name := range []string{"rounds", "latency-rounds", "churn", "objects"} {
		want := "-" + name + " -1: must not be negative"
		if err := run(t.Context(), []string{"-quick", "-" + name, "-1"}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
