package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/serve/internal/launch"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

const (
	namespace = "soak"
	mapCount  = 300
)

// world is a control plane with two replicas in front of it, behind one address, as a Service has.
type world struct {
	random   *rand.Rand
	dir      string
	plane    *controlplane.ControlPlane
	admin    kubernetes.Interface
	launcher *launch.Launcher
	upstream *launch.Balancer // between the replicas and the API server
	balancer *launch.Balancer // between the clients and the replicas
	replicas [2]*launch.Replica
	config   *rest.Config // of the clients
	changes  int
	faults   map[string]int
}

func newWorld(ctx context.Context, random *rand.Rand) (w *world, err error) {
	w = &world{random: random, faults: map[string]int{}}
	if w.dir, err = os.MkdirTemp("", "tidings-soak-"); err != nil {
		return w, err
	}
	w.plane, err = controlplane.Launch(ctx, controlplane.Options{UnsafeNoFsync: true,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return w, err
	}
	admin := w.plane.Config()
	admin.QPS = -1
	if w.admin, err = kubernetes.NewForConfig(admin); err != nil {
		return w, err
	}
	if err := w.connect(ctx); err != nil {
		return w, err
	}
	for i := range w.replicas {
		if err := w.start(ctx, i); err != nil {
			return w, err
		}
	}
	if w.balancer, err = launch.NewBalancer(w.addresses()...); err != nil {
		return w, err
	}
	token, err := w.reader(ctx)
	if err != nil {
		return w, err
	}
	w.config = w.launcher.Config(w.balancer.Address(), token)
	return w, nil
}

// connect puts a balancer before the API server, whose connections can be cut.
func (w *world) connect(ctx context.Context) error {
	host, err := url.Parse(w.plane.Config().Host)
	if err != nil {
		return err
	}
	if w.upstream, err = launch.NewBalancer(host.Host); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(w.plane.Kubeconfig())
	if err != nil {
		return err
	}
	file := filepath.Join(w.dir, "kubeconfig")
	changed := strings.ReplaceAll(string(kubeconfig), host.Host, w.upstream.Address())
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		return err
	}
	w.launcher, err = launch.New(ctx, file)
	return err
}

func (w *world) addresses() []string {
	return []string{w.replicas[0].Address(), w.replicas[1].Address()}
}

// start starts a replica, or starts it again. The second one has a directory.
func (w *world) start(ctx context.Context, i int) error {
	args := []string{"--resources", "configmaps", "--memory-budget", "256Mi"}
	if i == 1 {
		args = append(args, "--dir", filepath.Join(w.dir, "saved"))
	}
	r, err := w.launcher.Start(ctx, args...)
	if err != nil {
		return err
	}
	w.replicas[i] = r
	if w.balancer != nil {
		w.balancer.Replace(w.addresses()...)
	}
	return nil
}

// reader returns the token of a service account that may read everything.
func (w *world) reader(ctx context.Context) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := w.admin.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	meta := metav1.ObjectMeta{Name: "reader"}
	accounts := w.admin.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	_, err := w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: meta.Name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	seconds := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := accounts.CreateToken(ctx, meta.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// disturb changes objects for a while, and makes things go wrong.
func (w *world) disturb(ctx context.Context, d time.Duration) error {
	tick := time.NewTicker(changeInterval)
	defer tick.Stop()
	end, fault := time.Now().Add(d), time.Now().Add(w.untilFault())
	for time.Now().Before(end) {
		if time.Now().After(fault) {
			if err := w.fault(ctx); err != nil {
				return err
			}
			fault = time.Now().Add(w.untilFault())
		}
		if err := w.change(ctx); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (w *world) untilFault() time.Duration {
	return time.Duration(w.random.Int64N(int64(2 * faultInterval)))
}

// change creates, updates or deletes a config map.
func (w *world) change(ctx context.Context) error {
	maps := w.admin.CoreV1().ConfigMaps(namespace)
	name := fmt.Sprintf("map-%03d", w.random.IntN(mapCount))
	w.changes++
	if w.random.IntN(4) == 0 {
		if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
	}
	o := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"half": []string{"a",
			"b"}[w.random.IntN(2)]}},
		Data: map[string]string{"text": strings.Repeat(fmt.Sprint(w.changes, " "), w.random.IntN(300))},
	}
	_, err := maps.Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}

// fault makes one thing go wrong, and repairs it.
func (w *world) fault(ctx context.Context) error {
	kinds := []string{"replica killed", "replica ended", "clients cut", "API server cut", "API server cut",
		"clients cut", "API server killed"}
	kind := kinds[w.random.IntN(len(kinds))]
	w.faults[kind]++
	switch kind {
	case "replica killed":
		w.replicas[1].Kill()
		return w.start(ctx, 1)
	case "replica ended":
		stopping, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := w.replicas[1].Stop(stopping); err != nil {
			return err
		}
		return w.start(ctx, 1)
	case "clients cut":
		w.balancer.Cut()
	case "API server cut":
		w.upstream.Cut()
	default:
		w.plane.Kill()
		return w.plane.Restart(ctx)
	}
	return nil
}

// resident returns the memory of the replica that is never killed.
func (w *world) resident() (float64, error) { return launch.Resident(w.replicas[0].PID()) }

func (w *world) counts() string { return fmt.Sprintf("%d changes, faults %v", w.changes, w.faults) }

// close ends everything.
func (w *world) close() (err error) {
	if w.balancer != nil {
		w.balancer.Close()
	}
	for _, r := range w.replicas {
		if r != nil {
			r.Kill()
		}
	}
	if w.launcher != nil {
		err = w.launcher.Close()
	}
	if w.upstream != nil {
		w.upstream.Close()
	}
	if w.plane != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, w.plane.Close(ctx))
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}
