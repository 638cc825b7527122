package fold

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// corpus is a kind of collection, encoded as it comes from a server.
type corpus struct {
	name string
	make func(t testing.TB, n int, seed uint64) [][]byte
}

var corpora = []corpus{
	{"pods", func(t testing.TB, n int, seed uint64) [][]byte { return marshalAll(t, wiretest.Pods(n, seed)) }},
	{"pods-trimmed", trimmedPods},
	{"pods-json", jsonPods},
	{"custom-resources-json", func(_ testing.TB, n int, seed uint64) [][]byte { return wiretest.CustomResources(n, seed) }},
	{"configmaps-random", func(t testing.TB, n int, seed uint64) [][]byte { return marshalAll(t, randomConfigMaps(n, seed)) }},
	{"events", func(t testing.TB, n int, seed uint64) [][]byte { return marshalAll(t, events(n, seed)) }},
	{"leases", func(t testing.TB, n int, seed uint64) [][]byte { return marshalAll(t, leases(n, seed)) }},
}

func marshalAll[T interface{ Marshal() ([]byte, error) }](t testing.TB, objects []T) [][]byte {
	t.Helper()
	var out [][]byte
	for _, object := range objects {
		data, err := object.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

// trimmedPods are pods without managed fields, as most programs want them.
func trimmedPods(t testing.TB, n int, seed uint64) [][]byte {
	pods := wiretest.Pods(n, seed)
	for _, pod := range pods {
		pod.ManagedFields = nil
	}
	return marshalAll(t, pods)
}

func jsonPods(t testing.TB, n int, seed uint64) [][]byte {
	t.Helper()
	var out [][]byte
	for _, pod := range wiretest.Pods(n, seed) {
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		data, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

// maker generates the unique parts of objects.
type maker struct{ *rand.Rand }

func newMaker(seed uint64) maker { return maker{rand.New(rand.NewPCG(seed, 7))} }

func (m maker) text(n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[m.IntN(len(alphabet))]
	}
	return string(out)
}

func (m maker) meta(prefix string, i int) metav1.ObjectMeta {
	a, b := m.Uint64(), m.Uint64()
	return metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%05d", prefix, i), Namespace: fmt.Sprintf("team-%d", m.IntN(40)),
		UID:               types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", uint32(a), uint16(a>>32), a>>52, uint16(b), b>>16)),
		ResourceVersion:   fmt.Sprint(71_000_000 + m.IntN(9_000_000)),
		CreationTimestamp: metav1.NewTime(time.Unix(1_760_000_000+int64(m.IntN(1e6)), 0)),
	}
}

// randomConfigMaps hold 2 kB of base64 each: four random bytes in three times as many as can be packed away.
func randomConfigMaps(n int, seed uint64) []*corev1.ConfigMap {
	m := newMaker(seed)
	out := make([]*corev1.ConfigMap, n)
	for i := range out {
		out[i] = &corev1.ConfigMap{ObjectMeta: m.meta("config", i), Data: map[string]string{"data": m.text(2048)}}
	}
	return out
}

func events(n int, seed uint64) []*corev1.Event {
	m := newMaker(seed)
	reasons := []string{"Pulled", "Created", "Started", "Scheduled", "Unhealthy", "BackOff"}
	out := make([]*corev1.Event, n)
	for i := range out {
		meta := m.meta("pod", i)
		reason := reasons[m.IntN(len(reasons))]
		out[i] = &corev1.Event{
			ObjectMeta: m.meta(meta.Name+"."+m.text(16), i),
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
				FieldPath: "spec.containers{main}",
			},
			Reason: reason, Type: "Normal", Count: int32(1 + m.IntN(20)),
			Message:        fmt.Sprintf("%s: container image registry.example.com/shop/api:v1.%d.%d on the node", reason, m.IntN(9), m.IntN(40)),
			Source:         corev1.EventSource{Component: "kubelet", Host: fmt.Sprintf("ip-10-0-%d-%d.internal", m.IntN(4), m.IntN(250))},
			FirstTimestamp: meta.CreationTimestamp, LastTimestamp: meta.CreationTimestamp,
		}
	}
	return out
}

func leases(n int, seed uint64) []*coordinationv1.Lease {
	m := newMaker(seed)
	duration := int32(40)
	out := make([]*coordinationv1.Lease, n)
	for i := range out {
		meta := m.meta("ip-10-0", i)
		meta.Namespace = "kube-node-lease"
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: meta.Name, UID: meta.UID}}
		renewed := metav1.NewMicroTime(meta.CreationTimestamp.Add(time.Duration(m.IntN(1e9))))
		out[i] = &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &meta.Name, LeaseDurationSeconds: &duration, RenewTime: &renewed,
		}}
	}
	return out
}
