package promises_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

// TestLoneInformersOfOtherScopesHaveOtherFiles: an informer with a narrower scope does not begin
// with the objects of the other one.
func TestLoneInformersOfOtherScopesHaveOtherFiles(t *testing.T) {
	for _, resource := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			for i := range 300 {
				p := newPod("a", fmt.Sprint(i))
				p.Labels = map[string]string{"app": fmt.Sprint(i % 2)}
				server.Create(p)
			}
			client, err := kubernetes.NewForConfig(server.Config())
			if err != nil {
				t.Fatal(err)
			}
			opts := tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}}}
			for selector, want := range map[string]int{"": 300, "app=0": 150, "app=1": 150} {
				scope := source.Scope{Labels: selector}
				if resource {
					scope.Resource = podResource
				}
				src, err := source.FromClient[pod](client.CoreV1().Pods(""), scope)
				if err != nil {
					t.Fatal(err)
				}
				syncsWith(t, src, opts, want)
			}
		})
	}
}

// syncsWith runs an informer that must begin without a file.
func syncsWith(t *testing.T, src source.ListerWatcher[pod], opts tidings.InformerOptions[pod], want int) {
	t.Helper()
	inf, err := tidings.NewInformer(src, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := inf.Status().Parts[0].File
	if got := inf.Snapshot().Len(); got != want || file.Loaded != 0 || file.Discarded != nil {
		t.Errorf("%d objects, want %d; file %+v", got, want, file)
	}
	if err := inf.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if saves := inf.Status().Parts[0].File.Saves; saves != 1 {
		t.Errorf("saved %d times", saves)
	}
}

// TestGivenSourcesOfOtherScopesHaveOtherFiles: an informer of a factory does not begin with what a
// source of another scope brought. A watch would never correct that.
func TestGivenSourcesOfOtherScopesHaveOtherFiles(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			for i := range 300 {
				p := newPod("a", fmt.Sprint(i))
				p.Labels = map[string]string{"app": fmt.Sprint(i % 2)}
				server.Create(p)
			}
			client, err := kubernetes.NewForConfig(server.Config())
			if err != nil {
				t.Fatal(err)
			}
			opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}}
			if recorded {
				if opts.Recorder, err = recording.NewRecorder(io.Discard, recording.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			for i, selector := range []string{"app=0", "", "", "app=0"} {
				want := map[string]int{"app=0": 150, "": 300}[selector]
				f := tidings.NewSourceFactory(opts)
				tidings.SetSource(f, func(scope tidings.Scope, namespace string) (source.ListerWatcher[pod], error) {
					narrow := scope.Source(namespace)
					narrow.Labels = selector
					return source.FromClient[pod](client.CoreV1().Pods(namespace), narrow)
				})
				inf, err := tidings.Informer[pod](f, tidings.Scope{})
				if err == nil {
					err = errors.Join(f.Start(t.Context()), f.WaitForSync(t.Context()))
				}
				if err != nil {
					t.Fatal(err)
				}
				if loaded := inf.Status().Parts[0].File.Loaded; inf.Snapshot().Len() != want || (loaded > 0) != (i > 1) {
					t.Errorf("selector %q: %d pods, %d from a file; want %d", selector, inf.Snapshot().Len(), loaded, want)
				}
				if err := f.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFilesOfSourcesThatTellNothing are distinguished by names and labels. Without a name, two would share one file.
func TestFilesOfSourcesThatTellNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "p"))
		opts := tidings.InformerOptions[pod]{Options: tidings.Options{Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}}}
		if _, err := tidings.NewInformer(c, opts); err == nil || !strings.Contains(err.Error(), "Options.Files.Dir needs a Name") {
			t.Errorf("error %v, want one that asks for a name", err)
		}
		opts.Name = "pods"
		for _, selector := range []labels.Set{nil, {"app": "web"}, {"app": "db"}} {
			opts.Labels = selector.AsSelector()
			syncsWith(t, c, opts, 1)
		}
	})
}
