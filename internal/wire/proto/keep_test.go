package proto

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// keeping are the options for single objects that are dropped soon.
var keeping = wire.Options{KeepBytes: true, NoVersions: true, MaxTableBytes: 32 << 10}

func newKeeping(t *testing.T) *Decoder[*corev1.Pod] {
	t.Helper()
	d, err := New[*corev1.Pod](keeping)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestKeptBytes: the strings of an object are in one block, into which nobody can append.
func TestKeptBytes(t *testing.T) {
	d := newKeeping(t)
	for _, pod := range wiretest.Pods(50, 3) {
		got := decodeOne(t, d, pod)
		from := uintptr(unsafe.Pointer(unsafe.StringData(got.Name)))
		for _, s := range []string{got.Namespace, string(got.UID), got.Status.PodIP, got.Status.ContainerStatuses[0].ContainerID} {
			if at := uintptr(unsafe.Pointer(unsafe.StringData(s))); at < from-8192 || at > from+8192 {
				t.Fatalf("%q is elsewhere", s)
			}
		}
		checkCaps(t, reflect.ValueOf(got).Elem(), "pod")
	}
}

// TestKeptBytesAreFew holds one string of each object. That keeps the encoding of a small object
// alive, but not of a large one.
func TestKeptBytesAreFew(t *testing.T) {
	const n = 50
	for size, most := range map[int]int{1 << 10: maxKept, 1 << 20: 4 << 10} {
		taken := heapOf(t, func() any {
			d := newKeeping(t)
			names := make([]string, n)
			for i := range names {
				names[i] = decodeOne(t, d, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Labels: map[string]string{"x": strings.Repeat("x", size)}}}).Name
			}
			return names
		})
		if taken > n*most {
			t.Errorf("the names of %d objects of %d bytes take %d", n, size, taken)
		}
	}
}

// TestTableKeepsNoEncodings: shared parts do not point into the encoding of the object that they came with.
func TestTableKeepsNoEncodings(t *testing.T) {
	pods := marshalAll(t, wiretest.Pods(2000, 4))
	taken := heapOf(t, func() any {
		d := newKeeping(t)
		for range 2 {
			for _, data := range pods {
				if _, err := d.Decode(data, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if stats := d.Stats(); stats.Hits*8 < stats.Lookups*4 {
			t.Errorf("of %d lookups %d found something", stats.Lookups, stats.Hits)
		}
		return d
	})
	if taken > 512<<10 { // the table, the plan and the sites
		t.Errorf("the decoder takes %d bytes", taken)
	}
}
