package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/tidingstest"
)

func builtin(resource, kind string) resources.Resource {
	return resources.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: resource}, Kind: kind, Namespaced: true}
}

var (
	pods    = builtin("pods", "Pod")
	secrets = builtin("secrets", "Secret")
)

// session runs a tail in a bubble.
type session struct {
	t       *testing.T
	server  *tidingstest.Server
	printer *ledger
	stop    context.CancelFunc
	done    chan error
}

func begin(t *testing.T, server *tidingstest.Server, opts Options) *session {
	t.Helper()
	s := &session{t: t, server: server, printer: newLedger(), done: make(chan error, 1)}
	opts.Printer = s.printer
	if opts.Namespaces == nil {
		opts.Namespaces = []string{""}
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	screen := cli.NewScreen(io.Discard, io.Discard)
	go func() {
		err := Run(ctx, server.Config(), screen, opts)
		screen.Close(time.Second)
		s.done <- err
	}()
	return s
}

// rest lets time pass.
func (s *session) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told returns the statuses since the last call, without progress.
func (s *session) told() []string {
	s.printer.mu.Lock()
	defer s.printer.mu.Unlock()
	var told []string
	for _, m := range s.printer.messages {
		if !strings.HasPrefix(m, "synced ") {
			told = append(told, m)
		}
	}
	s.printer.messages = nil
	return told
}

// expect checks that there is one status for each prefix.
func (s *session) expect(beginnings ...string) {
	s.t.Helper()
	told := s.told()
	ok := len(told) == len(beginnings)
	for i := range min(len(told), len(beginnings)) {
		ok = ok && strings.HasPrefix(told[i], beginnings[i])
	}
	if !ok {
		s.t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(beginnings, "\n"))
	}
}

func (s *session) end() error {
	s.stop()
	return <-s.done
}

func forbid(server *tidingstest.Server, resource string) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("User %q cannot list resource %q", "eve", resource))
	server.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: resource, Err: forbidden})
}

// TestOneForbiddenResource does not end the others, is shown once, and is an error in the end.
func TestOneForbiddenResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		forbid(server, "secrets")
		s := begin(t, server, Options{Resources: []resources.Target{{Resource: secrets}, {Resource: configMaps}, {Resource: pods}}})
		s.rest(time.Minute)
		s.expect(`missing secrets/: forbidden: User "eve" cannot list resource "secrets"; grant list and watch; continuing without it`)
		server.Create(configMap(1, 1))
		s.rest(time.Minute)
		if len(s.printer.versions) != 1 || s.printer.statuses[news.Synced] != 2 {
			t.Errorf("versions %v, statuses %v", s.printer.versions, s.printer.statuses)
		}
		s.expect()
		if err := s.end(); err == nil || !strings.HasPrefix(err.Error(), `secrets: forbidden: User "eve"`) {
			t.Errorf("got %v", err)
		}
	})
}

// TestGrantedLater: a missing resource is followed once access is granted, and then nothing is missing in the end.
func TestGrantedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		forbid(server, "secrets")
		s := begin(t, server, Options{Resources: []resources.Target{{Resource: secrets}, {Resource: configMaps}}})
		s.rest(time.Minute)
		server.ClearFaults()
		s.rest(time.Minute)
		s.expect("missing secrets")
		if s.printer.statuses[news.Synced] != 2 {
			t.Errorf("statuses %v", s.printer.statuses)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestEndsCountWhatIsThere: the options that wait for a sync do not wait for a missing resource.
func TestEndsCountWhatIsThere(t *testing.T) {
	for name, opts := range map[string]Options{"after sync": {ExitAfterSync: true}, "idle": {Idle: time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				forbid(server, "secrets")
				opts.Resources = []resources.Target{{Resource: secrets}, {Resource: configMaps}}
				began := time.Now()
				err := <-begin(t, server, opts).done
				if took := time.Since(began); took > 5*time.Second || err == nil || !strings.HasPrefix(err.Error(), "secrets: forbidden") {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}

// TestNothingLeft: if all resources are forbidden it ends at once, and names each.
func TestNothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		forbid(server, "secrets")
		forbid(server, "pods")
		began := time.Now()
		err := <-begin(t, server, Options{Resources: []resources.Target{{Resource: secrets}, {Resource: pods}}}).done
		if took := time.Since(began); took > time.Second || err == nil || strings.Count(err.Error(), "forbidden") != 2 || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestOutageIsOneLine: however many resources fail and are retried, the server is shown as gone once and as back once.
func TestOutageIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(configMap(1, 1))
		s := begin(t, server, Options{Resources: []resources.Target{{Resource: configMaps}, {Resource: pods}, {Resource: secrets}}, Namespaces: []string{"shop", "billing"}})
		s.rest(time.Minute)
		s.expect()
		server.Stop()
		s.rest(10 * time.Minute)
		s.expect("outage /: ")
		server.Start()
		s.rest(time.Minute)
		s.expect("recovered /: the server answers again after 10m")
		server.Stop()
		server.Update(configMap(1, 2))
		server.Compact()
		s.rest(time.Minute)
		server.Start()
		s.rest(3 * time.Minute)
		told := s.told()
		if len(told) == 0 || len(told) > 2 || !strings.HasSuffix(told[len(told)-1], "; everything was relisted, and missed changes have been shown") {
			t.Errorf("told %q", told)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestOutageAtTheStart: it is shown too, and an unresponsive server is no reason to give up.
func TestOutageAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Stop()
		s := begin(t, server, Options{Resources: []resources.Target{{Resource: configMaps}, {Resource: pods}}})
		s.rest(5 * time.Minute)
		s.expect("outage /: ")
		server.Start()
		s.rest(time.Minute)
		s.expect("recovered /: ")
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatMakesAResourceMissing: a failure of the server as a whole does not, even if it ends a fail-fast wait.
func TestWhatMakesAResourceMissing(t *testing.T) {
	for reason, want := range map[reflector.Reason]bool{
		reflector.Forbidden: true, reflector.NotFound: true, reflector.BadRequest: true, reflector.NotAcceptable: true,
		reflector.Unauthorized: true, reflector.Certificate: true,
		reflector.Refused: false, reflector.DNS: false, reflector.Network: false, reflector.Timeout: false, reflector.Server: false,
	} {
		err := &tidings.SyncError{Resource: "pods", Cause: &reflector.Error{Name: "pods", Reason: reason, Err: errors.New("no")}}
		if got := ofResource(err); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
	if !ofResource(errors.New("something else")) {
		t.Error("an unknown error is waited out")
	}
}

// TestServerThatComesAndGoes breaks every connection again and again: that is shown a few times, not each time.
func TestServerThatComesAndGoes(t *testing.T) {
	for _, pause := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			s := begin(t, server, Options{Resources: []resources.Target{{Resource: configMaps}, {Resource: pods}, {Resource: secrets}}})
			s.rest(time.Minute)
			const cuts = 200
			for range cuts {
				server.BreakConnections()
				s.rest(pause)
			}
			s.rest(5 * time.Minute)
			told := s.told()
			if len(told) == 0 || len(told) > cuts/2 {
				t.Errorf("every %v: told %d times of %d cuts", pause, len(told), cuts)
			}
			if last := told[len(told)-1]; !strings.HasPrefix(last, "recovered /") && !strings.HasPrefix(last, "reconnected /") {
				t.Errorf("every %v: the last word is %q", pause, last)
			}
			if err := s.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestForbiddenLater: if access to a followed resource is revoked, that is shown once, and so is that it continues.
func TestForbiddenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		s := begin(t, server, Options{Resources: []resources.Target{{Resource: configMaps}, {Resource: pods}}})
		s.rest(time.Minute)
		forbid(server, "pods")
		server.BreakConnections()
		s.rest(10 * time.Minute)
		told := s.told()
		if n := strings.Count(strings.Join(told, "\n"), "error pods/: forbidden: "); n != 1 || len(told) > 3 {
			t.Errorf("told %q", told)
		}
		server.ClearFaults()
		s.rest(2 * time.Minute)
		s.expect("relisted pods/: relisted")
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestSilence: a server that keeps its connections open but sends nothing is shown once.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{BookmarkInterval: time.Hour})
		s := begin(t, server, Options{Resources: []resources.Target{{Resource: configMaps}, {Resource: pods}, {Resource: secrets}}})
		s.rest(4*time.Minute + 30*time.Second)
		s.expect("stale /: the server has sent nothing for 3m")
		server.Create(configMap(1, 1))
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDiskIsAFailure: a failed write is different from a reader that has gone.
func TestFullDiskIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(configMap(1, 1))
		screen := cli.NewScreen(full{}, new(bytes.Buffer))
		err := Run(t.Context(), server.Config(), screen, Options{Resources: []resources.Target{{Resource: configMaps}}, Namespaces: []string{""}, Printer: newLedger(), Initial: true})
		if err = screen.End(err, time.Second); err == nil || errors.Is(err, cli.ErrOutputClosed) || err.Error() != "cannot write the output: no space left on device" {
			t.Errorf("got %v", err)
		}
	})
}

// full is an output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
