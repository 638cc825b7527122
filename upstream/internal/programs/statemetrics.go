package programs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var stateMetrics = Program{
	Name: "kube-state-metrics", Module: "k8s.io/kube-state-metrics/v2", Version: "v2.20.0", License: "Apache-2.0",
	About: fmt.Sprintf("It has a reflector for every kind of object, over a ListWatch of its own, and keeps metrics only. "+
		"%d pods and what comes with them; %d changes, and a tenth of the pods are deleted.", metricsPods,
		metricsChanges),
	Main: ".", Packages: []string{"./internal/...", "./pkg/..."}, play: playStateMetrics,
}

const metricsPods, metricsChanges = 5_000, 20_000

func playStateMetrics(ctx context.Context, s *session) ([]string, error) {
	all := pods(metricsPods)
	for i, pod := range all {
		s.server.Create(pod)
		if i%5 == 0 {
			s.server.Load(companions(i, pod)...)
		}
	}
	kubeconfig, err := s.kubeconfig()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	telemetry, err := freePort()
	if err != nil {
		return nil, err
	}
	err = s.start("--kubeconfig", kubeconfig, "--host", "127.0.0.1", "--port", port,
		"--telemetry-host", "127.0.0.1", "--telemetry-port", telemetry)
	if err != nil {
		return nil, err
	}
	address := "http://127.0.0.1:" + port + "/metrics"
	if err := s.awaitMetrics(ctx, address, metricsPods, ""); err != nil {
		return nil, err
	}
	if err := s.synced(); err != nil {
		return nil, err
	}
	left := s.disturbStateMetrics(all)
	if err := s.awaitMetrics(ctx, address, left, "the-last-pod"); err != nil {
		return nil, err
	}
	text, err := scrape(ctx, address)
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines, err
}

// disturbStateMetrics changes pods and deletes some. It returns the number that is left.
func (s *session) disturbStateMetrics(all []*corev1.Pod) int {
	for i := range metricsChanges {
		pod := all[i*7%len(all)]
		change(pod)
		s.server.Update(pod)
	}
	for i, pod := range all {
		if i%10 == 0 {
			s.server.Delete(pod)
		}
	}
	s.server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "the-last-pod", UID: "the-last-pod", CreationTimestamp: created,
	}})
	return len(all) - (len(all)+9)/10 + 1
}

// awaitMetrics waits until the metrics are those of n pods, among them the named one if there is a
// name, and stay the same.
func (s *session) awaitMetrics(ctx context.Context, address string, n int, name string) error {
	before := ""
	return s.await(ctx, fmt.Sprint("the metrics of ", n, " pods"), func() (bool, error) {
		text, err := scrape(ctx, address)
		if err != nil {
			return false, nil // it does not listen yet
		}
		same := text == before
		before = text
		return same && strings.Count(text, "\nkube_pod_info{") == n && strings.Contains(text, name), nil
	})
}

func scrape(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
