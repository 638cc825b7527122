package wiretest

import (
	"bytes"
	"testing"
)

func TestPods(t *testing.T) {
	pods, again := Pods(2000, 1), Pods(2000, 1)
	seen := map[string]bool{}
	size := 0
	for i, pod := range pods {
		a, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		b, err := again[i].Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("pod %d differs between two runs of one seed", i)
		}
		size += len(a)
		for _, unique := range []string{pod.Namespace + "/" + pod.Name, string(pod.UID), pod.ResourceVersion, pod.Status.PodIP} {
			if seen[unique] {
				t.Fatalf("%q appears twice", unique)
			}
			seen[unique] = true
		}
	}
	if mean := size / len(pods); mean < 3800 || mean > 4600 {
		t.Errorf("a pod is %d bytes, want about 4200", mean)
	}
}
