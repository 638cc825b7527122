package recorder_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/recorder"
)

func ExampleRecorder() {
	var rec recorder.Recorder[*corev1.Node]
	n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "7"}}
	rec.Delta(object.Delta[*corev1.Node]{Type: object.Added, Key: object.KeyOf(n1), Object: n1})
	fmt.Println(rec.WaitVersions(context.Background(), map[object.Key]string{{Name: "n1"}: "7"}))

	rec.Delta(object.Delta[*corev1.Node]{Type: object.Added, Key: object.KeyOf(n1), Object: n1})
	fmt.Println(rec.Err())
	// Output:
	// <nil>
	// delta 1: Added n1: it was added before, and not deleted since
}
