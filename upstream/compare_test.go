package main

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/tidings/tidings/upstream/internal/compare"
	"github.com/tidings/tidings/upstream/internal/controllers"
)

// TestMain lets the test binary act as the program that runs the controllers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "controllers" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSameEnd plays a short scenario on both engines, in which the API server is killed once and restarted once.
func TestSameEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts := compare.Options{
		Program: program, Dir: t.TempDir(), Rounds: 5, Pause: time.Second, RestartEvery: 2, Quietly: true, Seed: 1, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	var results []compare.Result
	for _, engine := range []string{controllers.ClientGo, controllers.Tidings} {
		r, err := compare.Run(t.Context(), engine, opts)
		if err != nil {
			t.Fatal(err)
		}
		if r.Kills != 1 || r.Restarts != 1 || r.Used.Requests["create"] == 0 || r.Used.CPU == 0 {
			t.Errorf("on %s: %d kills, %d restarts, used %+v", engine, r.Kills, r.Restarts, r.Used)
		}
		results = append(results, r)
	}
	if diff := results[0].State.Difference(results[1].State); diff != "" {
		t.Errorf("the end states differ (- client-go, + tidings):\n%s", diff)
	}
	if len(results[0].State.Lines) < 20 {
		t.Errorf("only %d lines of state: %q", len(results[0].State.Lines), results[0].State.Lines)
	}
	t.Log(table(results[0], results[1]))
}
