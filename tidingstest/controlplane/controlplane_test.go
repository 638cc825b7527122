package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/tidingstest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestControlPlane covers the lifecycle of control planes. It is one test, because each start takes seconds.
func TestControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real API servers")
	}
	tidingstest.CheckLeaks(t)
	first, second := startTwo(t)
	t.Run("side by side", func(t *testing.T) { checkApart(t, first, second) })
	t.Run("restricted user", func(t *testing.T) { checkRestricted(t, first) })
	t.Run("folder in use", func(t *testing.T) { checkFolderInUse(t, first) })
	t.Run("kill and restart", func(t *testing.T) { checkKill(t, first) })
	t.Run("interrupt", func(t *testing.T) { checkInterrupt(t, first) })
	t.Run("clean stop under a watch", func(t *testing.T) { checkStop(t, first) })
	t.Run("dead by itself", func(t *testing.T) { checkDead(t, second) })
	t.Run("closed standard input", func(t *testing.T) { checkOrphan(t, second) })
}

func startTwo(t *testing.T) (first, second *ControlPlane) {
	var starts sync.WaitGroup
	starts.Go(func() { first = launch(t, Options{}) })
	starts.Go(func() {
		second = launch(t, Options{
			DataDir: t.TempDir(), UnsafeNoFsync: true, FeatureGates: map[string]bool{"WatchList": true}, Args: []string{"--v=1"},
		})
	})
	starts.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return first, second
}

// launch is like Start, for goroutines of a test, which must not call t.Fatal.
func launch(t *testing.T, options Options) *ControlPlane {
	c, err := Launch(t.Context(), options)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.dir); c.temporary && !os.IsNotExist(err) {
			t.Errorf("the temporary folder %s is still there: %v", c.dir, err)
		}
	})
	return c
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"key": name}}
}

func createConfigMap(t *testing.T, c *ControlPlane, name string) {
	t.Helper()
	_, err := clientFor(t, c.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), newConfigMap(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func getConfigMap(t *testing.T, config *rest.Config, name string) error {
	t.Helper()
	_, err := clientFor(t, config).CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	return err
}

func checkApart(t *testing.T, first, second *ControlPlane) {
	if first.Config().Host == second.Config().Host || first.PID() == second.PID() {
		t.Fatalf("both are %s with process %d", first.Config().Host, first.PID())
	}
	createConfigMap(t, first, "apart")
	if err := getConfigMap(t, second.Config(), "apart"); !apierrors.IsNotFound(err) {
		t.Errorf("an object of one control plane in the other: %v", err)
	}
	info, err := os.Stat(first.Kubeconfig())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: mode %v, error %v", info.Mode(), err)
	}
	version, err := clientFor(t, first.Config()).Discovery().ServerVersion()
	if err != nil || !strings.HasPrefix(version.GitVersion, "v1.") {
		t.Errorf("version %v, error %v", version, err)
	}
}

func checkRestricted(t *testing.T, c *ControlPlane) {
	config, err := c.User("-alice", "operators", "others")
	if err != nil {
		t.Fatal(err)
	}
	err = getConfigMap(t, config, "apart")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"-alice"`) {
		t.Errorf("without a role: %v", err)
	}
	_, err = clientFor(t, c.Config()).RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "operators"}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The server learns of the role through a watch.
	deadline := time.Now().Add(stopPatience)
	for err = getConfigMap(t, config, "apart"); err != nil && time.Now().Before(deadline); err = getConfigMap(t, config, "apart") {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("with a role: %v", err)
	}
}

func checkFolderInUse(t *testing.T, c *ControlPlane) {
	_, err := Launch(t.Context(), Options{DataDir: c.dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another control plane") {
		t.Errorf("second control plane in the same folder: %v", err)
	}
}

func checkKill(t *testing.T, c *ControlPlane) {
	createConfigMap(t, c, "kept")
	before, pid := c.Config(), c.PID()
	c.Kill()
	if c.PID() != 0 {
		t.Errorf("process %d after Kill", c.PID())
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.PID() == pid {
		t.Errorf("still process %d", pid)
	}
	if err := getConfigMap(t, before, "kept"); err != nil {
		t.Errorf("after kill and restart, with the configuration from before: %v", err)
	}
}

// checkInterrupt simulates Ctrl-C in a terminal: the signal reaches the child too, which leaves the decision to
// the parent.
func checkInterrupt(t *testing.T, c *ControlPlane) {
	if err := c.process.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Skip("no interrupts on this system: ", err)
	}
	for range 20 {
		if err := getConfigMap(t, c.Config(), "kept"); err != nil {
			t.Fatal(err)
		}
	}
}

func checkStop(t *testing.T, c *ControlPlane) {
	watch, err := clientFor(t, c.Config()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	start := time.Now()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("an open watch held the stop up for %v", took)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func checkDead(t *testing.T, c *ControlPlane) {
	process := c.process
	if err := process.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-process.done
	err := c.Stop(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ended by itself: signal: killed") {
		t.Errorf("Stop of a dead process: %v", err)
	}
}

// checkOrphan simulates the death of the process's parent.
func checkOrphan(t *testing.T, c *ControlPlane) {
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = c.process.stdin.Close()
	select {
	case <-c.process.done:
	case <-time.After(stopPatience):
		t.Fatal("the process lives on without its parent")
	}
	err := c.Stop(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 0") {
		t.Errorf("Stop after a clean end: %v", err)
	}
}

func TestControlPlaneThatCannotStart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a real API server")
	}
	tidingstest.CheckLeaks(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"flag":    {Options{Args: []string{"--no-such-flag"}}, "unknown flag: --no-such-flag"},
		"gate":    {Options{FeatureGates: map[string]bool{"NoSuchGate": true}}, "unrecognized feature gate: NoSuchGate"},
		"port":    {Options{Port: 70000}, "--port 70000: ports are 0"},
		"folder":  {Options{DataDir: file}, "not a directory"},
		"socket":  {Options{DataDir: filepath.Join(t.TempDir(), strings.Repeat("x", 100))}, "choose a --data-dir with a shorter name"},
		"ownflag": {Options{Args: []string{"--secure-port=1"}}, "use --port"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Launch(t.Context(), test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
