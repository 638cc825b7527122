package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/tidingstest"
)

var configMaps = resources.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true}

func configMap(n, value int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"value": fmt.Sprint(value)},
		"metadata": map[string]any{"namespace": "shop", "name": fmt.Sprint("cm-", n)},
	}}
}

// ledger is a printer that replays the events and notes inconsistencies.
type ledger struct {
	mu       sync.Mutex
	versions map[string]string
	wrong    []string
	statuses map[news.StatusKind]int
	messages []string // of the statuses, with their kind and subject
}

func newLedger() *ledger {
	return &ledger{versions: map[string]string{}, statuses: map[news.StatusKind]int{}}
}

func (l *ledger) Event(e news.Event) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, isKnown := l.versions[e.Name]
	switch {
	case isKnown == (e.Type == news.Added):
		l.wrong = append(l.wrong, fmt.Sprintf("%s of %s, which is known: %t", e.Type, e.Name, isKnown))
	case isKnown && e.Type != news.Deleted && e.OldResourceVersion != known:
		l.wrong = append(l.wrong, fmt.Sprintf("%s: from version %s, but %s was shown", e.Name, e.OldResourceVersion, known))
	case e.Type == news.Modified && len(e.Changes) == 0:
		l.wrong = append(l.wrong, fmt.Sprintf("%s: modified without a change", e.Name))
	}
	if e.Type == news.Deleted {
		delete(l.versions, e.Name)
	} else {
		l.versions[e.Name] = e.ResourceVersion
	}
	return []byte(e.Name + "\n")
}

func (l *ledger) Status(s news.Status) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[s.Kind]++
	l.messages = append(l.messages, fmt.Sprintf("%s %s/%s: %s", s.Kind, s.Resource.Name(), s.Namespace, s.Message))
	return []byte(s.Message + "\n")
}

// TestChangesAddUpToTheState: through random writes, broken connections, restarts and lost history, the shown changes
// are a gapless history of every object that ends in the server's state.
func TestChangesAddUpToTheState(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{NoWatchList: seed%2 == 0})
			printer := newLedger()
			screen := cli.NewScreen(io.Discard, io.Discard)
			done := make(chan error, 1)
			go func() {
				done <- Run(t.Context(), server.Config(), screen, Options{
					Resources: []resources.Target{{Resource: configMaps}}, Namespaces: []string{""}, Printer: printer, Initial: true, Idle: 3 * time.Minute,
				})
			}()
			disturb(r, server)
			if err := <-done; err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			screen.Close(time.Second)
			if len(printer.wrong) > 0 {
				t.Errorf("seed %d: %s", seed, strings.Join(printer.wrong, "\n"))
			}
			want := map[string]string{}
			for key, version := range server.Versions(configMaps.GroupVersionResource) {
				want[key.Name] = version
			}
			if fmt.Sprint(printer.versions) != fmt.Sprint(want) {
				t.Errorf("seed %d: shown %v\nserver %v", seed, printer.versions, want)
			}
			if printer.statuses[news.Synced] != 1 || printer.statuses[news.Outage] != printer.statuses[news.Recovered] {
				t.Errorf("seed %d: statuses %v", seed, printer.statuses)
			}
		})
	}
}

// disturb makes random writes and failures.
func disturb(r *rand.Rand, server *tidingstest.Server) {
	exists := map[int]bool{}
	for step := range 300 {
		n := r.IntN(10)
		switch {
		case !exists[n]:
			server.Create(configMap(n, step))
			exists[n] = true
		case r.IntN(3) == 0:
			server.Delete(configMap(n, step))
			delete(exists, n)
		default:
			server.Update(configMap(n, step))
		}
		switch r.IntN(40) {
		case 0:
			server.BreakConnections()
		case 1:
			server.Restart()
			server.Compact()
		}
		time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
	}
}

// stalled is an output whose reader has stopped reading.
type stalled struct{ release chan struct{} }

func (w stalled) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

// TestStalledOutput: a stalled reader blocks the output, but the command still ends on request.
func TestStalledOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for n := range 5000 {
			server.Create(configMap(n, 0))
		}
		output := stalled{make(chan struct{})}
		screen := cli.NewScreen(output, io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, server.Config(), screen, Options{
				Resources: []resources.Target{{Resource: configMaps}}, Namespaces: []string{"shop"}, Printer: newLedger(), Initial: true,
			})
		}()
		time.Sleep(time.Hour)
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > shutdownGrace {
			t.Errorf("ending took %s", took)
		}
		screen.Close(time.Second)
		close(output.release)
	})
}

func TestEndings(t *testing.T) {
	tests := map[string]struct {
		opts   Options
		stop   bool // the server is down
		want   string
		atMost time.Duration
	}{
		"after sync":             {opts: Options{ExitAfterSync: true}, atMost: time.Second},
		"idle":                   {opts: Options{Idle: time.Minute}, atMost: 62 * time.Second},
		"timeout":                {opts: Options{Timeout: time.Minute}, atMost: time.Minute},
		"timeout before count":   {opts: Options{Timeout: time.Minute, Count: 2}, want: "timed out after 1m0s: 0 of 2 changes seen", atMost: time.Minute},
		"timeout before sync":    {opts: Options{Timeout: time.Minute}, stop: true, want: "timed out after 1m0s: configmaps: ", atMost: time.Minute},
		"timeout wins over idle": {opts: Options{Timeout: time.Minute, Idle: time.Hour}, atMost: time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				if test.stop {
					server.Stop()
				}
				screen := cli.NewScreen(io.Discard, io.Discard)
				defer screen.Close(time.Second)
				test.opts.Resources, test.opts.Namespaces, test.opts.Printer = []resources.Target{{Resource: configMaps}}, []string{metav1.NamespaceAll}, newLedger()
				began := time.Now()
				ctx := t.Context()
				if test.opts.Timeout > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeoutCause(ctx, test.opts.Timeout, ErrTimeout)
					defer stop()
				}
				err := Run(ctx, server.Config(), screen, test.opts)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				if took := time.Since(began); took > test.atMost+pollEvery {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestIdleWaitsForTheServer: while the server is away, it is unknown whether anything changes.
func TestIdleWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		screen := cli.NewScreen(io.Discard, io.Discard)
		defer screen.Close(time.Second)
		const away = 10 * time.Minute
		time.AfterFunc(time.Second, server.Stop)
		time.AfterFunc(time.Second+away, server.Start)
		began := time.Now()
		err := Run(t.Context(), server.Config(), screen, Options{
			Resources: []resources.Target{{Resource: configMaps}}, Namespaces: []string{metav1.NamespaceAll}, Printer: newLedger(), Idle: time.Minute,
		})
		if took := time.Since(began); err != nil || took < away {
			t.Errorf("it took %s: %v", took, err)
		}
	})
}

func TestOutputClosedEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(configMap(1, 1))
		screen := cli.NewScreen(broken{}, io.Discard)
		defer screen.Close(time.Second)
		err := Run(t.Context(), server.Config(), screen, Options{Resources: []resources.Target{{Resource: configMaps}}, Namespaces: []string{""}, Printer: newLedger(), Initial: true})
		if !errors.Is(err, cli.ErrOutputClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// broken is an output whose writes fail.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
