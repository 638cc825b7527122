package proto

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestQuantityExponent checks that a short string cannot keep the decoder busy for minutes.
func TestQuantityExponent(t *testing.T) {
	for _, s := range []string{"1e999999999", "1E-99999999", "1e9223372036854775808", "3e+1001", "3e-1001"} {
		if _, err := parseQuantity(s); err == nil {
			t.Errorf("%s was accepted", s)
		}
	}
	for _, s := range []string{"1", "1E", "2Ei", "1e3", "1E-9", "5e+2", "1e1000", "1e-1000"} {
		if _, err := parseQuantity(s); err != nil {
			t.Errorf("%s: got %v", s, err)
		}
	}
}

// TestTimes compares with metav1's own decoding, around the limits of the fast path.
func TestTimes(t *testing.T) {
	for _, seconds := range []int64{-62135596800, -1, 0, 1, 1<<28 - 1, 1 << 28, 1_760_000_000, 1<<35 - 1, 1 << 35, 253402300799} {
		for _, nanos := range []int32{0, 1, 1000, 999_999_999} {
			data, err := (&metav1.Timestamp{Seconds: seconds, Nanos: nanos}).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			for n := range len(data) + 1 {
				compareTime(t, data[:n])
			}
		}
	}
	compareTime(t, []byte{0x10, 0x05, 0x08, 0x05, 0x1a, 0x00})
	compareTime(t, []byte{0x0a, 0x00})
	compareTime(t, []byte{0x08, 0x05, 0x80})
}

func compareTime(t *testing.T, data []byte) {
	t.Helper()
	var got, want metav1.Time
	if err, wantErr := setTime(timeKind, unsafe.Pointer(&got), data), want.Unmarshal(data); (err != nil) != (wantErr != nil) || got != want {
		t.Errorf("%x: got %v, %v, want %v, %v", data, got, err, want, wantErr)
	}
	var micro, wantMicro metav1.MicroTime
	if err, wantErr := setTime(microTimeKind, unsafe.Pointer(&micro), data), wantMicro.Unmarshal(data); (err != nil) != (wantErr != nil) || micro != wantMicro {
		t.Errorf("%x: got %v, %v, want %v, %v", data, micro, err, wantMicro, wantErr)
	}
}

// TestDeepGroups checks that nesting takes no stack.
func TestDeepGroups(t *testing.T) {
	deep := []byte(strings.Repeat("\x0b", 1<<20) + strings.Repeat("\x0c", 1<<20))
	start := time.Now()
	if end, err := skip(deep, 0); err != nil || end != len(deep) {
		t.Errorf("got %d, %v after %v", end, err, time.Since(start))
	}
	d := &decoder{compiler: &compiler{}}
	if err := d.quantity(unsafe.Pointer(new(resource.Quantity)), append([]byte{0x13}, append(deep, 0x14)...)); err != nil {
		t.Errorf("in a quantity: %v", err)
	}
}
