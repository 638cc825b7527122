package programs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Usage is what a process has used.
type Usage struct {
	CPU         time.Duration // of all threads, in user and kernel mode
	Heap        uint64        // bytes of live objects, after a collection
	HeapObjects uint64
	Goroutines  int
	PeakRSS     uint64 // bytes
}

// process is a program that runs.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	reports *os.File
	decoder *json.Decoder
	ended   chan struct{} // closed when it has ended
	err     error         // of its end; written before ended is closed
}

// startProcess starts a binary. Its output goes to a file.
func startProcess(binary, logFile string, args ...string) (*process, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	p := &process{cmd: cmd, reports: read, decoder: json.NewDecoder(read), ended: make(chan struct{})}
	if p.in, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// usage asks the process what it has used.
func (p *process) usage() (u Usage, err error) {
	if _, err := io.WriteString(p.in, "report\n"); err != nil {
		return u, err
	}
	if err := p.decoder.Decode(&u); err != nil {
		return u, fmt.Errorf("the report of the process: %w", err)
	}
	u.PeakRSS, err = peakRSS(p.cmd.Process.Pid)
	return u, err
}

// peakRSS returns the most memory that a process had at a time. The peak that the kernel counts for
// rusage includes that of this process, which has forked it.
func peakRSS(pid int) (uint64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "VmHWM:" {
			kB, err := strconv.ParseUint(string(fields[1]), 10, 64)
			return kB << 10, err
		}
	}
	return 0, errors.New("the kernel does not tell the peak of the resident memory")
}

// stopPatience is how long a program may take to end.
const stopPatience = 10 * time.Second

// stop ends the process, by force if it does not end by itself.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	_ = p.reports.Close()
}
