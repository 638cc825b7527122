package serve

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

func podOn(name, node, label string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"half": label}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// selectionOf selects the pods of a node.
func selectionOf(t *testing.T, r *replica.Resource, node string) *protocol.Selection {
	t.Helper()
	found := r.Found()
	query := url.Values{"fieldSelector": {"spec.nodeName" + "=" + node}}
	selection, err := protocol.NewSelection(&found.ResourceType, protocol.Target{}, query, true, false)
	if err != nil {
		t.Fatal(err)
	}
	return selection
}

// TestWatchersOfNodes wakes a watcher of one node's pods for their changes only, and has it miss nothing though the
// journal forgets what happened on other nodes while it slept.
func TestWatchersOfNodes(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Resources: []string{"pods"}, JournalBytes: 4000})
	f.Create(podOn("one", "a", ""))
	f.Create(podOn("two", "b", ""))
	res := f.replicas[0].resources[0]
	reached := func() {
		t.Helper()
		f.SendBookmarks(corev1.SchemeGroupVersion.WithResource("pods"))
		eventually(t, func() bool { return replica.Format(res.Collection.Stats().Version) == f.ResourceVersion() })
	}
	reached()
	client := kubernetes.NewForConfigOrDie(f.replicas[0].config(as(f.config, "user")))
	w, err := client.CoreV1().Pods("").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: f.ResourceVersion(), FieldSelector: "spec.nodeName=a"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	view, leave := res.Collection.View(nil, nil).Of(selectionOf(t, res, "a"))
	start := view.Version()
	woken := view.After(start).Changed
	for i := range 100 { // far more than the journal has room for
		f.Update(podOn("two", "b", fmt.Sprint(i)))
	}
	reached()
	if isClosed(woken) {
		t.Error("a change on another node wakes")
	}
	if view.Oldest() <= start {
		t.Fatalf("the journal reaches %d, not only what is after %d", view.Oldest(), start)
	}
	if tail := view.After(start); tail.Lost || len(tail.Changes) > 0 {
		t.Errorf("nothing happened on the node, but: %+v", tail)
	}
	version := f.Update(podOn("one", "a", "changed"))
	select {
	case e := <-w.ResultChan():
		if pod, ok := e.Object.(*corev1.Pod); !ok || e.Type != watch.Modified || pod.ResourceVersion != version {
			t.Errorf("%v", e)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the watch is silent")
	}
	if !isClosed(woken) {
		t.Error("a change of the node does not wake")
	}
	for i := range 100 {
		f.Update(podOn("one", "a", fmt.Sprint(i)))
	}
	reached()
	if tail := view.After(start); !tail.Lost {
		t.Error("changes of the node were dropped, and that is not said")
	}
	late, leaveLate := res.Collection.View(nil, nil).Of(selectionOf(t, res, "unwatched"))
	if !late.After(start).Lost {
		t.Error("the first watcher of a node is not told that the journal begins later")
	}
	leaveLate()
	leave()
	w.Stop()
	eventually(t, func() bool { return res.Collection.Stats().Topics == 0 })
}
