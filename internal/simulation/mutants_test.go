package simulation

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

var allMutants = flag.Bool("mutants", false, "whether TestMutants looks for all mutants")

// mutant is a patch that breaks the code on purpose. Its file says what breaks, then names the source file after "---",
// followed by the lines to find there: with a space before lines that stay, "-" before removed and "+" before new ones.
type mutant struct {
	name, about, file, before, after string
}

const (
	mutantsFolder = "testdata/mutants"
	moduleFolder  = "../.."
)

func readMutants(t *testing.T) (all []mutant) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(mutantsFolder, "*.patch"))
	if err != nil || len(files) < 12 {
		t.Fatalf("%d mutants, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMutant(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(file), ".patch")
		all = append(all, m)
	}
	return all
}

func parseMutant(text string) (m mutant, err error) {
	about, patch, ok := strings.Cut(text, "\n\n--- ")
	file, lines, ok2 := strings.Cut(patch, "\n")
	if !ok || !ok2 {
		return m, fmt.Errorf("want what it breaks, an empty line, and --- with a file")
	}
	m.about, m.file = about, file
	for line := range strings.Lines(lines) {
		switch line[0] {
		case ' ':
			m.before += line[1:]
			m.after += line[1:]
		case '-':
			m.before += line[1:]
		case '+':
			m.after += line[1:]
		default:
			return m, fmt.Errorf("want a space, - or + before %q", line)
		}
	}
	return m, nil
}

// source returns the path of the file that the mutant changes, and its changed content.
func (m mutant) source() (path, changed string, err error) {
	if path, err = filepath.Abs(filepath.Join(moduleFolder, m.file)); err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(text), m.before); n != 1 {
		return "", "", fmt.Errorf("its lines occur %d times in %s", n, m.file)
	}
	return path, strings.Replace(string(text), m.before, m.after, 1), nil
}

// build compiles the simulation with the mutant, and returns the program.
func (m mutant) build(t *testing.T) string {
	t.Helper()
	path, changed, err := m.source()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file, program, overlay := filepath.Join(folder, "mutant.go"), filepath.Join(folder, "mutant.test"), filepath.Join(folder, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{file: changed, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"test", "-c", "-vet=off", "-tags", "simulation_core", "-overlay", overlay, "-o", program}
	if raceDetector {
		args = append(args, "-race") // so that compiled dependencies are reused
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, out)
	}
	return program
}

// find fails the test unless the simulation with the mutant fails for one of some seeds.
func (m mutant) find(t *testing.T, seeds int) {
	t.Helper()
	program := m.build(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run", "^TestSimulate$", "-first", "-test.timeout", "8m", "-seeds", fmt.Sprint(seeds))
	command.Env = append(os.Environ(), testseed.Variable+"=1")
	out, err := command.CombinedOutput()
	if err == nil {
		t.Errorf("not found by %d seeds: %s", seeds, m.about)
		return
	}
	why := reason(string(out))
	if why == "" {
		t.Errorf("the simulation could not run: %v\n%s", err, out)
	}
	t.Logf("%s\nfound: %s", m.about, why)
}

// reason returns the first line of a failed simulation's output that says what it found, or "".
func reason(out string) string {
	for line := range strings.Lines(out) {
		_, found, ok := strings.Cut(line, "simulation_test.go:")
		for _, sign := range []string{"panic: ", "fatal error: "} {
			ok = ok || strings.HasPrefix(line, sign)
		}
		switch {
		case !ok:
		case found != "" && !strings.Contains(line, testseed.Variable):
			_, found, _ = strings.Cut(found, ": ")
			return strings.TrimSpace(found)
		case found == "":
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// TestMutantsApply checks that the patches apply to the source.
func TestMutantsApply(t *testing.T) {
	for _, m := range readMutants(t) {
		if _, changed, err := m.source(); err != nil || m.before == m.after || strings.TrimSpace(m.about) == "" || changed == "" {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestMutant checks with one of the mutants that broken code is detected.
func TestMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the simulation anew")
	}
	for _, m := range readMutants(t) {
		if m.name == "key-twice-at-once" {
			m.find(t, 12)
			return
		}
	}
	t.Error("there is no such mutant")
}

// TestMutants checks that all mutants are detected.
func TestMutants(t *testing.T) {
	if !*allMutants {
		t.Skip("make simulate-mutants runs this")
	}
	for _, m := range readMutants(t) {
		t.Run(m.name, func(t *testing.T) { m.find(t, 150) })
	}
}
