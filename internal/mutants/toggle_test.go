package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
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

// TestToggles compiles mutants together, runs the program with each of them, and compares it with a
// program that has that mutant alone.
func TestToggles(t *testing.T) {
	writeModule(t, map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p.go": toggled})
	all, name, err := find(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var mutants []mutant
	for _, m := range all {
		if len(m.toggle.edits) > 0 {
			mutants = append(mutants, m)
		}
	}
	if len(mutants) < 30 {
		t.Fatalf("%d of %d mutants can be switched on", len(mutants), len(all))
	}
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
	plain := run(-1)
	if !strings.HasPrefix(plain, "12 ") {
		t.Fatal(plain)
	}
	for i := range mutants {
		if run(i) == plain {
			t.Errorf("changes nothing: %s", &mutants[i])
		}
	}
}
