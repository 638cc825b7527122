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

func TestPodsOfSmallOwners(t *testing.T) {
	replicas := map[string]int{}
	for _, pod := range PodsOfSmallOwners(2000, 5, 1) {
		replicas[string(pod.OwnerReferences[0].UID)]++
	}
	most := 0
	for _, n := range replicas {
		most = max(most, n)
	}
	if most != 5 || len(replicas) < 500 || len(replicas) > 900 {
		t.Errorf("%d owners with at most %d replicas, want about 667 with at most 5", len(replicas), most)
	}
}
