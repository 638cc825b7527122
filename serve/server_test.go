package serve

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// TestReviewsAreNotThrottled checks that reviews do not wait for client-go's default limit, and that limits that were
// set stay.
func TestReviewsAreNotThrottled(t *testing.T) {
	limiter := flowcontrol.NewFakeAlwaysRateLimiter()
	for _, tt := range []struct {
		name   string
		config rest.Config
		want   float32
	}{
		{"no limit given", rest.Config{}, -1},
		{"a limit", rest.Config{QPS: 7}, 7},
		{"a limiter", rest.Config{RateLimiter: limiter}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			given := tt.config
			got := unthrottled(&given)
			if got.QPS != tt.want || got.RateLimiter != tt.config.RateLimiter {
				t.Errorf("QPS is %v, the limiter %v", got.QPS, got.RateLimiter)
			}
			if given.QPS != tt.config.QPS {
				t.Error("the caller's config was changed")
			}
		})
	}
}
