package main

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toggled prints a line for each function; each mutant changes what is printed.
const toggled = `package main

import "fmt"

type size uint8

var text []string

func note(s string) bool { text = append(text, s); return true }

func sums(a, b size) size { return a + b*3 - 1 }

func order(a, b int) string { return fmt.Sprint(a+b, a < b, a <= b, a > b, a >= b, a == b, a != b) }

func both(a, b bool) bool {
	return a && note("both") || b && note("one") && !a
}

func fail(err error) (bool, error) {
	if err != nil {
		return false, err
	}
	if note("in") && note("out") {
		note("in and out")
	}
	for i := 0; i < 3; i++ {
		note(fmt.Sprint(i))
		if i == 0 {
			continue
		}
		defer note(fmt.Sprint("deferred", i))
	}
	return true, nil
}

func main() {
	fmt.Println(sums(7, 2), order(1, 1), order(1, 2), both(true, true), both(false, true), both(true, false), both(false, false))
	fmt.Println(fail(nil))
	fmt.Println(fail(fmt.Errorf("oh %d", 7/2)))
	fmt.Println(text)
}
`

// TestToggles compiles mutants together, and runs the program with each of them. What a mutant does depends neither on
// the others nor on their order.
func TestToggles(t *testing.T) {
	writeModule(t, map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p.go": toggled})
	all, name, err := find(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	mutants := slices.DeleteFunc(all, func(m mutant) bool { return len(m.toggle.edits) == 0 })
	if len(mutants) < 30 {
		t.Fatalf("%d mutants can be switched on", len(mutants))
	}
	// outputs returns what the program prints without a mutant, and with each.
	outputs := func(mutants []mutant) (plain string, by map[string]string) {
		trial := trial{dir: t.TempDir(), name: name}
		overlay, err := trial.writeToggles(trial.dir+"/all", mutants)
		if err != nil {
			t.Fatal(err)
		}
		program := trial.dir + "/program"
		if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		run := func(number int) string {
			command := exec.Command(program)
			command.Env = append(command.Environ(), fmt.Sprintf("%s=%d", activeVariable, number))
			out, err := command.CombinedOutput()
			return fmt.Sprint(string(out), err)
		}
		by = map[string]string{}
		for i := range mutants {
			by[fmt.Sprint(mutants[i].start, " ", &mutants[i])] = run(i)
		}
		return run(-1), by
	}
	plain, by := outputs(mutants)
	if !strings.HasPrefix(plain, "12 ") {
		t.Fatal(plain)
	}
	for m, out := range by {
		if out == plain {
			t.Errorf("changes nothing: %s", m)
		}
	}
	slices.Reverse(mutants)
	if _, reversed := outputs(mutants); !maps.Equal(by, reversed) {
		t.Errorf("in another order (-before +after):\n%s", cmp.Diff(by, reversed))
	}
}
