package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programDir is where the tidings command was built; TestMain removes it.
var programDir string

// program is the tidings command, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidings-e2e-")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "tidings")
	if out, err := exec.Command("go", "build", "-C", "../cmd/tidings", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// managerProcess is a running "tidings controller-manager".
type managerProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string        // where it serves
	done    chan struct{} // closed when it has ended
	err     error         // how, then

	mu  sync.Mutex
	log bytes.Buffer
	// lines wakes those who wait for a line of the log.
	lines *sync.Cond
}

// startManager starts the program with a kubeconfig that leads to server, and returns when it serves.
func startManager(t *testing.T, server string, args ...string) *managerProcess {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, server)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &managerProcess{t: t, done: make(chan struct{})}
	p.lines = sync.NewCond(&p.mu)
	p.cmd = exec.Command(path, append([]string{"controller-manager", "--kubeconfig", kubeconfig, "--bind-address", "127.0.0.1:0"}, args...)...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(stderr)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended already, unless the test failed
		<-p.done
		if t.Failed() || testing.Verbose() {
			t.Logf("log of process %d:\n%s", p.cmd.Process.Pid, p.log.String())
		}
	})
	p.address = p.awaitLine(`msg=started .*address=(\S+)`)
	return p
}

// read takes in the log until the process ends.
func (p *managerProcess) read(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.mu.Lock()
		fmt.Fprintln(&p.log, lines.Text())
		p.mu.Unlock()
		p.lines.Broadcast()
	}
	p.err = p.cmd.Wait()
	close(p.done)
	p.lines.Broadcast()
}

// awaitLine waits for a match in the log, and returns its last group.
func (p *managerProcess) awaitLine(pattern string) string {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	late := time.AfterFunc(patience, func() { p.lines.Broadcast() })
	defer late.Stop()
	deadline := time.Now().Add(patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if found := want.FindStringSubmatch(p.log.String()); found != nil {
			return found[len(found)-1]
		}
		if p.ended() || !time.Now().Before(deadline) {
			p.t.Fatalf("no line of the log matches %q; ended: %v:\n%s", pattern, p.ended(), p.log.String())
		}
		p.lines.Wait()
	}
}

func (p *managerProcess) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal and waits for the end.
func (p *managerProcess) signal(s syscall.Signal) error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		p.t.Fatalf("it does not end on %v", s)
		return nil
	}
}

// get reads a page that the process serves.
func (p *managerProcess) get(path string) (code int, body string) {
	p.t.Helper()
	answer, err := http.Get("http://" + p.address + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}
