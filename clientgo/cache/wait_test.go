package cache_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/tidings/tidings/clientgo/cache"
)

// TestWaitForNamesItsCaller: the log messages are those of the line that waits.
func TestWaitForNamesItsCaller(t *testing.T) {
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	_, _, line, _ := runtime.Caller(0)
	cache.WaitFor(ctx, "caches")
	if want := fmt.Sprintf("wait_test.go:%d] \"Waiting\"", line+1); !strings.Contains(log.String(), want) {
		t.Errorf("got %q, want %q", log.String(), want)
	}
}
