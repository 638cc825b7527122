//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// terminal is a program in a pseudo-terminal.
type terminal struct {
	t        testing.TB
	cmd      *exec.Cmd
	keyboard *os.File // of the person
	program  *os.File // of the program; kept open, so that its state can be looked at
	before   *term.State

	mu     sync.Mutex
	screen vt10x.Terminal
	raw    strings.Builder
	more   chan struct{} // has an element when the program has written something
}

// start starts the command line in a terminal of this size, with a cluster. Arguments may end with "<" and a file,
// which is its input instead of the terminal.
func start(t testing.TB, c *cluster, columns, rows int, args ...string) *terminal {
	t.Helper()
	keyboard, program, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	x := &terminal{t: t, keyboard: keyboard, program: program, screen: vt10x.New(vt10x.WithSize(columns, rows)), more: make(chan struct{}, 1)}
	if x.before, err = term.GetState(int(program.Fd())); err != nil {
		t.Fatal(err)
	}
	env := &testscript.Env{WorkDir: t.TempDir()}
	if err := c.setup(env); err != nil {
		t.Fatal(err)
	}
	x.resize(columns, rows)
	stdin := program
	if n := len(args); n > 1 && args[n-2] == "<" {
		if stdin, err = os.Open(args[n-1]); err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		args = args[:n-2]
	}
	x.cmd = exec.Command("tidings", args...)
	x.cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(env.WorkDir, "kubeconfig"), "TERM=vt220", "TZ=UTC", "GORACE=atexit_sleep_ms=0")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = stdin, program, program
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(x.read)
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill() // it has ended, unless the test failed
		program.Close()
		keyboard.Close()
		reading.Wait()
	})
	return x
}

// read passes on what the program writes.
func (x *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := x.keyboard.Read(buffer)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.raw.Write(buffer[:n])
		_, _ = x.screen.Write(buffer[:n]) // a terminal does not fail
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
	}
}

func (x *terminal) resize(columns, rows int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	if err := pty.Setsize(x.keyboard, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := x.keyboard.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until the screen shows the text.
func (x *terminal) shows(text string) {
	x.t.Helper()
	x.await("the text "+text, func() bool { return strings.Contains(x.screen.String(), text) })
}

// await waits until a condition of the screen holds.
func (x *terminal) await(what string, holds func() bool) {
	x.t.Helper()
	deadline := time.After(waitAtMost)
	for {
		x.mu.Lock()
		ok, screen := holds(), x.screen.String()
		x.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-x.more:
		case <-deadline:
			x.t.Fatalf("not seen: %s; the screen is\n%s", what, screen)
		}
	}
}

// ends waits for the end of the program, which has to succeed and to leave the terminal as it was.
func (x *terminal) ends() {
	x.t.Helper()
	if err := x.cmd.Wait(); err != nil {
		x.t.Errorf("the program ended with %v; it wrote\n%s", err, x.written())
	}
	after, err := term.GetState(int(x.program.Fd()))
	if err != nil {
		x.t.Fatal(err)
	}
	if *after != *x.before {
		x.t.Errorf("the terminal's state was %v and is %v", *x.before, *after)
	}
}

// written returns all that the program has written.
func (x *terminal) written() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.raw.String()
}

func pod(t *testing.T, name, node, manager string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(`
apiVersion: v1
kind: Pod
metadata:
  name: ` + name + `
  namespace: shop
  uid: ` + name + `
  managedFields:
  - {manager: ` + manager + `, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:nodeName": {}}}}
spec: {nodeName: ` + node + `}
`))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestTopOnATerminal: the table fills the screen, follows its size, reacts to keys, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"ctrl-C": "\x03", "q": "q"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.server.Create(pod(t, "web", "a", "left"))
			c.server.Create(pod(t, "db", "a", "left"))
			x := start(t, c, 80, 24, "top", "pods")
			if err := c.server.WaitWatches(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				c.server.Update(pod(t, "web", "b", "right"))
				c.server.Update(pod(t, "web", "a", "left"))
			}
			c.server.Update(pod(t, "db", "b", "right"))
			x.shows("7 writes in")
			x.shows("pods shop/web spec.nodeName: left sets \"a\", right sets \"b\" (5 times)")
			x.press("\t\t")
			x.shows("BY MANAGER")
			x.shows("right")
			x.press("1/db\r")
			x.await("only db", func() bool {
				text := x.screen.String()
				return strings.Contains(text, `only names with "db"`) && strings.Count(text, "pods shop/web") == 1 // in the fight
			})
			x.press("\r")
			x.shows("1 last changes of pods shop/db")
			x.shows(`spec.nodeName: "a" → "b"`)
			x.press("p")
			x.shows("PAUSED")
			x.resize(60, 12)
			x.shows("esc back  up/down scroll  p pause  q quit")
			x.press("\x7f?")
			x.shows("count by something else; also 1 to 4")
			x.press(end)
			x.ends()
			// What the program wrote last may still be on its way through the terminal when it has ended.
			x.await("the alternate screen left, and the cursor shown", func() bool {
				return strings.Contains(x.raw.String(), "\x1b[?1049l") && strings.Contains(x.raw.String(), "\x1b[?25h")
			})
			x.shows("7 writes in") // the last figures stay
		})
	}
}

// TestTailOnATerminal: ctrl-C ends it well, and the terminal is as before.
func TestTailOnATerminal(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.server.Create(pod(t, "web", "a", "left"))
	x := start(t, c, 80, 24, "tail", "pods", "--fields")
	if err := c.server.WaitWatches(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.server.Update(pod(t, "web", "b", "right"))
	x.shows(`spec.nodeName: "a" → "b"`)
	long := strings.Repeat("0123456789 ", 12)
	c.server.Update(pod(t, "web", `"`+long+`end"`, "right"))
	x.shows("      0123456789 0123456789") // goes on below the field's name
	x.resize(40, 24)
	c.server.Update(pod(t, "web", `"`+strings.Repeat("x", 190)+`"`, "right"))
	x.shows("…")
	x.press("\x03")
	x.ends()
}

// TestTailKeys: while tail runs, keys set what is shown and pause it, below the changes, which stay in the scrollback.
func TestTailKeys(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.server.Create(pod(t, "web", "a", "left"))
	x := start(t, c, 100, 40, "tail", "pods", "--fields")
	x.shows("up to date with 1 object")
	x.shows("-- 0 shown  / text  f filters  s fields  a all  p pause  ? keys  q quit")
	c.server.Update(pod(t, "web", "b", "left"))
	x.shows("-- 1 shown  ")
	x.press("/right\x7f\x7f")
	x.shows("-- only changes with: rig_")
	x.press("ht\r")
	x.shows("-- from here on: --grep right")
	c.server.Update(pod(t, "web", "c", "left"))
	x.shows("-- 1 shown, 1 hidden  --grep right")
	c.server.Update(pod(t, "web", "d", "right"))
	x.shows(`spec.nodeName: "c" → "d"`)
	x.press("\x1b") // alone: with the next key it would be another key
	x.shows("-- from here on: no filters")
	x.press("2")
	x.shows("-- from here on: --changes status")
	x.press("2a")
	x.shows("-- from here on: --all")
	x.press("f\x15--where 'new.spec'")
	x.press(" --nothing\r")
	x.shows("-- unknown flag: --nothing")
	x.press("\x15--where 'new.spec.nodeName == \"f\"'\r")
	x.shows("-- from here on: --where 'new.spec.nodeName == \"f\"'")
	c.server.Update(pod(t, "web", "e", "right"))
	x.shows("1 hidden")
	x.press("p")
	x.shows("-- PAUSED, 0 waiting")
	c.server.Update(pod(t, "web", "f", "right"))
	x.shows("-- PAUSED, 1 waiting")
	x.resize(60, 40)
	if text := x.written(); strings.Contains(text, `"e" → "f"`) {
		t.Error("a change is shown during the pause")
	}
	x.press("p")
	x.shows(`spec.nodeName: "e" → "f"`)
	x.press("?")
	x.shows("all filters, typed as flags")
	x.press("q")
	x.ends()
	text := x.written()
	if strings.Contains(text, "\x1b[?1049h") {
		t.Error("the alternate screen has no scrollback")
	}
	x.await("no line of keys is left", func() bool { return !strings.Contains(x.screen.String(), "q quit") })
	for _, unwanted := range []string{`"b" → "c"`, `"d" → "e"`} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%s is shown", unwanted)
		}
	}
}

// TestTailWithoutKeys: nobody can press keys if the input is no terminal, and there is no line about them.
func TestTailWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-o", "json"}, {"<", "/dev/null"}} {
		c := newCluster(t)
		c.server.Create(pod(t, "web", "a", "left"))
		x := start(t, c, 100, 40, append([]string{"tail", "pods", "--count", "1"}, args...)...)
		if err := c.server.WaitWatches(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c.server.Update(pod(t, "web", "b", "left"))
		x.ends()
		if strings.Contains(x.written(), "q quit") {
			t.Errorf("%v: there are keys", args)
		}
	}
}
