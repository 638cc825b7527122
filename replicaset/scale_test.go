package replicaset

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSlowStart counts the calls of each batch by the time at which they are made: each takes a second.
func TestSlowStart(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		n, failAt int // the call that fails, from 1; 0 means none
		batches   []int64
	}{
		{0, 0, nil},
		{1, 0, []int64{1}},
		{2, 0, []int64{1, 1}},
		{10, 0, []int64{1, 2, 4, 3}},
		{500, 0, []int64{1, 2, 4, 8, 16, 32, 64, 128, 245}},
		{500, 1, []int64{1}},
		{500, 3, []int64{1, 2}},
		{500, 4, []int64{1, 2, 4}},
		{500, 7, []int64{1, 2, 4}},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			made := make([]atomic.Int64, 16)
			var calls atomic.Int64
			err := slowStart(tt.n, func() error {
				call := calls.Add(1)
				made[int(time.Since(start)/time.Second)].Add(1)
				time.Sleep(time.Second)
				if call == int64(tt.failAt) {
					return boom
				}
				return nil
			})
			if (tt.failAt > 0) != errors.Is(err, boom) {
				t.Errorf("n=%d, call %d fails: error %v", tt.n, tt.failAt, err)
			}
			for i := range made {
				want := int64(0)
				if i < len(tt.batches) {
					want = tt.batches[i]
				}
				if got := made[i].Load(); got != want {
					t.Errorf("n=%d, call %d fails: batch %d has %d calls, want %d", tt.n, tt.failAt, i, got, want)
				}
			}
		})
	}
}

func TestNamePrefix(t *testing.T) {
	long := strings.Repeat("a", 253)
	for owner, want := range map[string]string{"web": "web-", "web.v1": "web.v1-", long: long, long[:251]: long[:251] + "-", long[:252]: long[:252]} {
		if got := namePrefix(owner); got != want {
			t.Errorf("prefix of a name of %d characters has %d, want %d", len(owner), len(got), len(want))
		}
	}
}

func TestOutcomeUnknown(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		err                 error
		unknown, unanswered bool
	}{
		{errors.New("connection reset"), true, true},
		{apierrors.NewInternalError(errors.New("etcd")), true, false},
		{apierrors.NewTimeoutError("slow", 1), true, false},
		{&apierrors.StatusError{}, true, false}, // it says nothing
		{&apierrors.StatusError{ErrStatus: metav1.Status{Code: 499}}, false, false},
		{apierrors.NewServerTimeout(pods, "create", 1), true, false},
		{apierrors.NewForbidden(pods, "web", errors.New("quota")), false, false},
		{apierrors.NewConflict(pods, "web", errors.New("old")), false, false},
		{apierrors.NewTooManyRequests("busy", 1), false, false},
	} {
		if got := outcomeUnknown(tt.err); got != tt.unknown {
			t.Errorf("outcome unknown: %v for %v", got, tt.err)
		}
		if got := unanswered(tt.err); got != tt.unanswered {
			t.Errorf("unanswered: %v for %v", got, tt.err)
		}
	}
}
