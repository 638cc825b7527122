package serve

import (
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// suspend stops a process, and returns when it has stopped. The signal takes effect only once one of the threads gets
// to run; until then others go on, and may still answer a request.
func suspend(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(strings.TrimSpace(string(state)), "T")
	})
}

// TestFreshnessIsSaid takes the API server away: reads that allow it are answered with their age, those of the most
// recent state get 504 in time. So it is when it is gone, and when it does not answer.
func TestFreshnessIsSaid(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	r := startReplica(t, Options{Config: c.Config(), Resources: []string{"configmaps"}})
	user := r.config(serviceAccount(t, c.Config(), "reader", everything))
	const (
		cached     = "/api/v1/configmaps?resourceVersion=0"
		one        = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication?resourceVersion=0"
		mostRecent = "/api/v1/configmaps"
	)
	age := func(path string, wantCode int) int {
		t.Helper()
		began := time.Now()
		response := respond(t, user, path)
		if response.StatusCode != wantCode || time.Since(began) > 20*replica.AskPatience {
			t.Errorf("%s: %s after %v, want %d", path, response.Status, time.Since(began), wantCode)
		}
		seconds, err := strconv.Atoi(response.Header.Get("Age"))
		if err != nil {
			return -1
		}
		return seconds
	}
	for _, path := range []string{cached, one, mostRecent} {
		if a := age(path, http.StatusOK); a != -1 {
			t.Errorf("%s: an age of %d s, though the API server is there", path, a)
		}
	}

	suspend(t, c.PID())
	age(mostRecent, http.StatusGatewayTimeout)
	age(cached, http.StatusOK)
	if err := syscall.Kill(c.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	age(mostRecent, http.StatusOK)

	c.Kill()
	eventually(t, func() bool { return r.resources[0].Found().Problem() != nil })
	for _, path := range []string{cached, one} {
		if a := age(path, http.StatusOK); a < 0 || a > 60 {
			t.Errorf("%s: an age of %d s", path, a)
		}
	}
	age(mostRecent, http.StatusGatewayTimeout)
	age("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", http.StatusGatewayTimeout)
	unknown := rest.CopyConfig(user)
	unknown.BearerToken = "of somebody who was not there before"
	if response := respond(t, unknown, cached); response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("a caller whom nobody knows: %s", response.Status)
	}

	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		response := respond(t, user, mostRecent)
		return response.StatusCode == http.StatusOK && response.Header.Get("Age") == ""
	})
}

// respond sends a GET and returns the response, whose body has been read.
func respond(t *testing.T, c *rest.Config, path string) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response
}
