package serve

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

// budget is enough for every test, and makes a replica pack objects.
const budget = 1 << 30

// packedPods returns a server with pods, and two replicas: the first keeps them as they come, the second packed.
func packedPods(t *testing.T, n int) (*fixture, []*corev1.Pod) {
	t.Helper()
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Resources: []string{"pods"}})
	all := wiretest.Pods(n, 1)
	for i, pod := range all {
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, i)
		f.Create(pod)
	}
	packs := Options{Config: f.config, Resources: []string{"pods"}, MemoryBudget: budget}
	f.replicas = append(f.replicas, startReplica(t, packs))
	return f, all
}

// reached waits until both replicas have all pods.
func (f *fixture) reached(t *testing.T) {
	t.Helper()
	f.SendBookmarks(corev1.SchemeGroupVersion.WithResource("pods"))
	for _, r := range f.replicas {
		eventually(t, func() bool {
			return replica.Format(r.resources[0].Collection.Stats().Version) == f.ResourceVersion()
		})
	}
}

// both asks both replicas.
func (f *fixture) both(t *testing.T, path, accept string) (codes [2]int, bodies [2]string) {
	t.Helper()
	for i, r := range f.replicas {
		codes[i], bodies[i] = answerTo(t, r.config(as(f.config, "user")), path, http.Header{"Accept": {accept}})
	}
	return codes, bodies
}

// TestPackedObjects: a replica that keeps objects packed gives the same answers as one that does not, takes much less
// memory for them, and forgets those that are gone.
func TestPackedObjects(t *testing.T) {
	f, all := packedPods(t, 700)
	f.reached(t)
	open, packed := f.replicas[0].resources[0].Collection, f.replicas[1].resources[0].Collection
	if a, b := open.Stats().ObjectBytes, packed.Stats().ObjectBytes; b > a/3 {
		t.Errorf("packed objects take %d bytes, the others %d", b, a)
	}
	compare := func() {
		t.Helper()
		one := all[len(all)-1]
		for _, path := range []string{
			"/api/v1/pods?resourceVersion=0", "/api/v1/pods?resourceVersion=0&limit=7", "/api/v1/pods",
			"/api/v1/namespaces/" + one.Namespace + "/pods?resourceVersion=0",
			"/api/v1/pods?resourceVersion=0&fieldSelector=status.phase%3DRunning",
			"/api/v1/namespaces/" + one.Namespace + "/pods/" + one.Name + "?resourceVersion=0",
			"/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3D" + one.Spec.NodeName,
			"/api/v1/pods?resourceVersion=0&fieldSelector=spec.restartPolicy%3DAlways,metadata.name%3D" + one.Name,
			"/api/v1/pods?resourceVersion=0&labelSelector=app%3D" + one.Labels["app"],
		} {
			for _, accept := range []string{
				"application/json", protocol.Protobuf,
				"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
				protocol.Protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
			} {
				codes, bodies := f.both(t, path, accept)
				if codes[0] != codes[1] || bodies[0] != bodies[1] {
					t.Errorf("%s as %s: %d and %d bytes, packed: %d and %d bytes",
						path, accept, codes[0], len(bodies[0]), codes[1], len(bodies[1]))
				}
			}
		}
	}
	compare()
	for i, pod := range all[:100] {
		switch pod.Labels["changed"] = "yes"; {
		case i%3 == 0:
			f.Delete(pod)
		default:
			f.Update(pod)
		}
	}
	f.reached(t)
	compare()
	for _, version := range []string{"0", replica.Format(packed.Stats().Floor)} {
		codes, bodies := f.both(t, "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion="+version,
			protocol.Protobuf)
		if codes[0] != codes[1] || bodies[0] != bodies[1] {
			t.Errorf("a watch from %s: %d and %d bytes, packed: %d and %d bytes",
				version, codes[0], len(bodies[0]), codes[1], len(bodies[1]))
		}
	}
	f.Stop() // the replicas have to list, and find most objects unchanged
	f.Delete(all[len(all)-2])
	f.Update(all[len(all)-1])
	f.Compact()
	f.Compact()
	f.Start()
	f.reached(t)
	compare()
}
