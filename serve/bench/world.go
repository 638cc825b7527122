package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/serve/internal/launch"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// world is a kube-apiserver with pods, and a replica in front of it.
type world struct {
	size
	plane    *controlplane.ControlPlane
	admin    kubernetes.Interface
	launcher *launch.Launcher
	upstream *launch.Balancer // between the replicas and the API server: it counts bytes
	replica  *launch.Replica
	token    string
	pods     []*corev1.Pod
	nodes    []string

	emptyServer, fullServer float64 // resident memory of the API server without and with the pods
	emptyReplica            float64
	closers                 []func() error
}

// limits are kube-apiserver's own for requests in flight, which a rate of gets of one user would exceed before its CPU
// does.
var limits = []string{"--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000"}

// namespaces is the number of namespaces.
const namespaces = 20

// prepare starts the servers for a measurement that needs them, or ends them before one that has its own.
func (w *world) prepare(ctx context.Context, alone bool) error {
	switch started := w.plane != nil; {
	case alone:
		return w.close()
	case !started:
		return w.start(ctx)
	}
	return nil
}

// close ends everything, in reverse order.
func (w *world) close() (err error) {
	for len(w.closers) > 0 {
		last := len(w.closers) - 1
		err = errors.Join(err, w.closers[last]())
		w.closers = w.closers[:last]
	}
	return err
}

func (w *world) start(ctx context.Context) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	w.plane, err = controlplane.Launch(ctx, controlplane.Options{UnsafeNoFsync: true, Logger: log, Args: limits})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return w.plane.Close(ctx)
	})
	admin := w.plane.Config()
	admin.WarningHandler = rest.NoWarnings{} // about the ports of generated pods
	if w.admin, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	if w.emptyServer, err = launch.Resident(w.plane.PID()); err != nil {
		return err
	}
	empty, err := w.launcher.Start(ctx, "--resources", "pods")
	if err != nil {
		return err
	}
	w.emptyReplica, err = launch.Resident(empty.PID())
	empty.Kill()
	if err != nil {
		return err
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	if w.fullServer, err = launch.Resident(w.plane.PID()); err != nil {
		return err
	}
	w.replica, err = w.startReplica(ctx)
	return err
}

// connect creates a reader, and a launcher of replicas that reach the API server through the counting balancer.
func (w *world) connect(ctx context.Context) error {
	host, err := url.Parse(w.plane.Config().Host)
	if err != nil {
		return err
	}
	if w.upstream, err = launch.NewBalancer(host.Host); err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { w.upstream.Close(); return nil })
	kubeconfig, err := os.ReadFile(w.plane.Kubeconfig())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidings-bench-")
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { return os.RemoveAll(dir) })
	file := filepath.Join(dir, "kubeconfig")
	counted := strings.ReplaceAll(string(kubeconfig), host.Host, w.upstream.Address())
	if err := os.WriteFile(file, []byte(counted), 0o600); err != nil {
		return err
	}
	if w.launcher, err = launch.New(ctx, file); err != nil {
		return err
	}
	w.closers = append(w.closers, w.launcher.Close)
	w.token, err = w.newReader(ctx)
	return err
}

func (w *world) startReplica(ctx context.Context) (*launch.Replica, error) {
	r, err := w.launcher.Start(ctx, "--resources", "pods", "--requests-per-user", "10000")
	if err == nil {
		w.closers = append(w.closers, func() error { r.Kill(); return nil })
	}
	return r, err
}

// newReader returns the token of a service account that may read everything.
func (w *world) newReader(ctx context.Context) (string, error) {
	meta := metav1.ObjectMeta{Name: "reader"}
	for i := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-%d", i)}}
		if _, err := w.admin.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return "", err
		}
	}
	accounts := w.admin.CoreV1().ServiceAccounts("ns-0")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	_, err := w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns-0", Name: meta.Name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	token, err := accounts.CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// creators is how many pods are created at a time.
const creators = 16

// load creates the pods, which are those of the other benchmarks.
func (w *world) load(ctx context.Context) error {
	w.pods = wiretest.Pods(w.Pods, 1)
	seen := map[string]bool{}
	var work sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	for i, pod := range w.pods {
		pod.Namespace, pod.Name = fmt.Sprintf("ns-%d", i%namespaces), fmt.Sprintf("pod-%06d", i)
		pod.ResourceVersion, pod.UID, pod.Spec.ServiceAccountName, pod.GenerateName = "", "", "", ""
		if node := pod.Spec.NodeName; node != "" && !seen[node] {
			seen[node] = true
			w.nodes = append(w.nodes, node)
		}
	}
	for c := range creators {
		work.Go(func() {
			for i := c; i < len(w.pods); i += creators {
				if err := w.create(ctx, w.pods[i]); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	work.Wait()
	return failed
}

// create creates a pod with its status.
func (w *world) create(ctx context.Context, pod *corev1.Pod) error {
	pods := w.admin.CoreV1().Pods(pod.Namespace)
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore})
	if err != nil {
		return err
	}
	pod.Status.DeepCopyInto(&created.Status)
	_, err = pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

// change changes pods at the size's rate, and calls note before each change.
func (w *world) change(ctx context.Context, n int, note func(i int)) error {
	tick := time.NewTicker(time.Second / time.Duration(w.Rate))
	defer tick.Stop()
	for i := range n {
		pod := w.pods[i*7919%len(w.pods)]
		note(i)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":"%d"}}}`, time.Now().UnixNano())
		_, err := w.admin.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		if err != nil {
			return err
		}
		<-tick.C
	}
	return nil
}

// side is one of the two servers that are compared.
type side struct {
	name   string
	pid    int
	config *rest.Config
}

// sides returns kube-apiserver and the replica.
func (w *world) sides() [2]side {
	server := rest.AnonymousClientConfig(w.plane.Config())
	server.BearerToken, server.QPS = w.token, -1
	return [2]side{
		{"kube-apiserver", w.plane.PID(), server},
		{"replica", w.replica.PID(), w.launcher.Config(w.replica.Address(), w.token)},
	}
}
