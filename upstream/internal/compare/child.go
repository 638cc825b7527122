package compare

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tidings/tidings/upstream/internal/controllers"
)

// RunControllers runs the controllers on an engine until a line or EOF is read from in. Before they
// stop, it writes the Usage to out, as JSON. profiles is a folder for profiles; it may be empty.
func RunControllers(ctx context.Context, engine, kubeconfig, profiles string, in io.Reader, out io.Writer) error {
	stopProfile, err := startProfile(profiles, engine)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	var counted calls
	counted.count(config)
	factories, err := controllers.NewFactories(engine, config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- controllers.Run(ctx, config, factories) }()
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = bufio.NewReader(in).ReadString('\n')
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("the controllers ended by themselves: %w", err)
	case <-told:
	}
	used, err := counted.usage()
	if err != nil {
		return err
	}
	if err := stopProfile(); err != nil {
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(used)
}

// child is a process that runs the controllers.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	log *os.File
}

// startProfile starts a CPU profile of this process in a folder. The returned function stops it and
// adds a heap profile.
func startProfile(dir, engine string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(filepath.Join(dir, engine+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(filepath.Join(dir, engine+".heap.pprof"))
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close())
	}, nil
}

// startChild starts a program that runs the controllers. Its log goes to a file.
func startChild(logFile, program string, args ...string) (*child, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Stderr = log
	c := &child{cmd: cmd, log: log}
	if c.in, err = cmd.StdinPipe(); err == nil {
		if c.out, err = cmd.StdoutPipe(); err == nil {
			err = cmd.Start()
		}
	}
	if err != nil {
		log.Close()
		return nil, err
	}
	return c, nil
}

// stop ends the process and returns its usage.
func (c *child) stop() (Usage, error) {
	defer c.log.Close()
	c.in.Close()
	var used Usage
	decoded := json.NewDecoder(c.out).Decode(&used)
	if err := c.cmd.Wait(); err != nil {
		return Usage{}, fmt.Errorf("the controllers: %w; see %s", err, c.log.Name())
	}
	if decoded != nil {
		return Usage{}, fmt.Errorf("what the controllers have used: %w", decoded)
	}
	return used, nil
}

// kill ends a process that is no longer needed.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.log.Close()
}
