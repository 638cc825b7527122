package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/tidingstest"
)

// TestThrottlingIsNoFailure writes faster than the client's rate limit allows within a reconcile's timeout.
func TestThrottlingIsNoFailure(t *testing.T) {
	for name, other := range map[string]error{"alone": nil, "with another error": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testThrottling(t, other) })
		})
	}
}

func testThrottling(t *testing.T, other error) {
	config := tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config()
	config.QPS, config.Burst = 0.02, 1 // one in 50 s
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	var log strings.Builder
	var errs []error
	c := controller.New("c", func(ctx context.Context, _ tidings.Key) (controller.Result, error) {
		_, err := maps.Create(ctx, lateConfigMap(fmt.Sprint("a", len(errs))), metav1.CreateOptions{})
		errs = append(errs, err)
		if err == nil {
			return controller.Result{RequeueAfter: time.Millisecond}, nil
		}
		return controller.Result{}, errors.Join(err, other)
	}, controller.Options{Timeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	c.Enqueue(lateKey)
	must(0, c.Run(ctx))
	if len(errs) < 4 || errs[0] != nil || !strings.Contains(fmt.Sprint(errs[1]), "would exceed context deadline") {
		t.Fatal(errs)
	}
	st := c.Stats()
	failed := st.Errors > 0 && strings.Contains(log.String(), "reconcile failed")
	if failed != (other != nil) || other == nil && (len(errs) != 4 || st.Requeues != 4 || log.Len() > 0) {
		t.Errorf("%d reconciles, %d errors, %d requeues: %s", len(errs), st.Errors, st.Requeues, log.String())
	}
}
