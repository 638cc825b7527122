//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/top"
	"github.com/tidings/tidings/source/recording"
)

// The recordings of the tests: the same rollout on a real API server, with two managers in a fight, a Secret and a
// Warning, recorded at the same time by this program and by one of the first that could record.
const (
	rollout = "testdata/rollout.tidings"
	earlier = "testdata/earlier.tidings"
)

// TestGolden compares what the commands show on terminals with files in testdata/golden, which -update writes. A replay
// shows a change as tail does.
func TestGolden(t *testing.T) {
	for _, golden := range []struct {
		name    string
		columns int
		args    []string
	}{
		{"tail-80", 80, []string{"replay", rollout, "--speed", "max", "--fields"}},
		{"tail-120", 120, []string{"replay", rollout, "--speed", "max", "--fields"}},
		{"tail-200", 200, []string{"replay", rollout, "--speed", "max", "--fields"}},
		{"tail-all", 80, []string{"replay", rollout, "--speed", "max", "--all", "--show-initial",
			"--show-managed-fields", "--max-changes", "4", "--max-value", "40"}},
		{"timeline", 80, []string{"timeline", "deploy/web", "--tree", "--from", rollout, "--fields"}},
		{"blame", 80, []string{"blame", "deploy/web", "--from", rollout}},
		{"blame-at", 80, []string{"blame", "deploy/web", "--from", rollout, "--at", "09:17:22.95"}},
		{"diff", 80, []string{"diff", rollout, "--at", "start", "--at", "end"}},
	} {
		t.Run(golden.name, func(t *testing.T) {
			t.Parallel()
			text := onTerminal(t, golden.columns, false, golden.args...)
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > golden.columns {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			compare(t, golden.name, text)
		})
	}
	t.Run("top", func(t *testing.T) {
		for _, by := range top.Groups {
			compare(t, "top-"+string(by), counted(t).Text(by, "writes", 80))
		}
	})
}

// compare compares a text with a golden file of testdata/golden.
func compare(t *testing.T, name, text string) {
	t.Helper()
	compareFile(t, filepath.Join("testdata", "golden", name+".txt"), text)
}

// compareFile compares a text with a file, which -update writes.
func compareFile(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("it is not as in %s; if that is meant, run the test with -update. It is\n%s", file, text)
	}
}

// onTerminal runs the program on a terminal of this width, and returns what it has written there: everything, or only
// results, in color.
func onTerminal(t *testing.T, columns int, colors bool, args ...string) string {
	t.Helper()
	keyboard, program, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	defer keyboard.Close()
	if err := pty.Setsize(keyboard, &pty.Winsize{Cols: uint16(columns), Rows: 50}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = text.ReadFrom(keyboard) // it ends with an error when nobody has the other side open any more
	}()
	cmd := exec.CommandContext(t.Context(), "tidings", args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1", "TZ=UTC", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if colors {
		cmd.Env, cmd.Stderr = append(cmd.Env, "NO_COLOR="), nil
	}
	err = cmd.Run()
	program.Close()
	<-read
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &text)
	}
	return strings.ReplaceAll(text.String(), "\r\n", "\n")
}

// counted returns what top counts of the rollout.
func counted(t *testing.T) top.Report {
	t.Helper()
	rec, err := recording.Open(rollout)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	began, _ := rec.Began()
	counter := top.New(began)
	for item, err := range history.Of(rec) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind == history.Change {
			counter.Event(history.Event(item, news.Options{}))
		}
	}
	return counter.Report(began.Add(rec.Duration()), 20)
}

// TestEarlierRecording: a recording of an earlier release, which has no time of day and takes its own end for a fault,
// plays as the one that was made at the same time.
func TestEarlierRecording(t *testing.T) {
	play := func(file string, args ...string) []string {
		text := string(output(t, append([]string{"replay", file, "--speed", "max", "-o", "json", "--show-initial",
			"--show-managed-fields"}, args...)...))
		text = stamps.ReplaceAllString(text, "TIME")
		lines := strings.Split(text, "\n")
		slices.Sort(lines) // the order between resources is that of arrival
		return lines
	}
	now, before := play(rollout), play(earlier)
	if len(now) < 40 || !slices.Equal(now, before) {
		t.Errorf("now\n%s\nbefore\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	if text := strings.Join(before, "\n"); strings.Contains(text, `"status":"error"`) {
		t.Error("a fault that was not recorded is reported")
	}
	file := filepath.Join(t.TempDir(), "copy.tidings")
	data, err := os.ReadFile(earlier)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	made := filesTime(t, file)
	for _, args := range [][]string{{"timeline", "deploy/web", "--tree", "--from", file}, {"blame", "deploy/web", "--from", file}, {"diff", file, "--at", "start"}} {
		if text := string(output(t, args...)); !strings.Contains(text, "web:1") || !strings.Contains(text, "web:2") {
			t.Errorf("%v:\n%s", args, text)
		}
	}
	if text := string(output(t, "timeline", "deploy/web", "--from", file)); !strings.HasPrefix(text, made) {
		t.Errorf("it is not dated %s:\n%s", made, text)
	}
}

// filesTime returns the date of a file.
func filesTime(t *testing.T, file string) string {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UTC().Format("2006-01-02")
}

// TestReplayFilters: every filter of tail selects the same of a recording.
func TestReplayFilters(t *testing.T) {
	all := strings.Split(strings.TrimSpace(string(output(t, "replay", rollout, "--speed", "max", "-o", "json"))), "\n")
	changes := 0
	for _, line := range all {
		if strings.Contains(line, `"kind":"change"`) {
			changes++
		}
	}
	for _, filter := range []struct {
		args string
		want int            // number of changes
		each *regexp.Regexp // of every change
	}{
		{"deploy", 7, regexp.MustCompile(`"resource":"deployments"`)},
		{"deploy/web", 3, regexp.MustCompile(`"name":"web"`)},
		{"-n news", changes, nil},
		{"-n other", 0, nil},
		{"pods -l set=web-2", 2, regexp.MustCompile(`"name":"web-2-`)},
		{"pods -l set=none", 0, nil},
		{"--count 3", 3, nil},
		{"--changes spec --op update", 9, regexp.MustCompile(`"path":"spec\.`)},
		{"--changes status --op update", 5, regexp.MustCompile(`"path":"status\.`)},
		{"--path **.image --op update", 1, regexp.MustCompile(`"path":"[^"]*\.image"`)},
		{"deploy --ignore spec", 1, regexp.MustCompile(`"path":"status`)},
		{"--manager gitops", 2, regexp.MustCompile(`"name":"gitops"`)},
		{"--manager kubectl-*", 4, regexp.MustCompile(`"name":"kubectl-`)},
		{"--op delete", 1, regexp.MustCompile(`"type":"DELETED"`)},
		{"--op add,delete", 6, regexp.MustCompile(`"type":"(ADDED|DELETED)"`)},
		{"--grep WEB:2", 3, nil},
		{"deploy --where new.spec.replicas>old.spec.replicas", 3, regexp.MustCompile(`"path":"spec.replicas"`)},
		{"secrets --max-value 0 --show-objects", 1, regexp.MustCompile(`\[redacted, 52 bytes`)},
	} {
		args := append([]string{"replay", rollout, "--speed", "max", "-o", "json"}, strings.Fields(filter.args)...)
		n := 0
		for line := range strings.Lines(string(output(t, args...))) {
			if !strings.Contains(line, `"kind":"change"`) {
				continue
			}
			n++
			if filter.each != nil && !filter.each.MatchString(line) {
				t.Errorf("%s: %s", filter.args, line)
			}
		}
		if n != filter.want {
			t.Errorf("%s: %d changes, want %d", filter.args, n, filter.want)
		}
	}
}

// TestDiffSelects: a difference can be narrowed to namespaces, labels, resources and objects.
func TestDiffSelects(t *testing.T) {
	for args, want := range map[string][]string{
		"-n other":              nil,
		"-n news -l set=web-2":  {"ADDED pods"},
		"-l set=none":           nil,
		"deploy":                {"MODIFIED deployments.apps", "MODIFIED deployments.apps"},
		"deploy/web":            {"MODIFIED deployments.apps"},
		"pods":                  {"ADDED pods", "DELETED pods"},
		"pods -l set=web-1":     {"DELETED pods"},
		"rs,pods --op add":      {"ADDED pods", "ADDED replicasets.apps"},
		"cm --path data.size":   {"MODIFIED configmaps"},
		"secrets --op add":      nil,
		"secrets --max-value 0": {"MODIFIED secrets"},
	} {
		var got []string
		for line := range strings.Lines(string(output(t, append([]string{"diff", rollout, "--at", "start"}, strings.Fields(args)...)...))) {
			if words := strings.Fields(line); clocks.MatchString(words[0]) {
				got = append(got, words[1]+" "+words[2])
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
