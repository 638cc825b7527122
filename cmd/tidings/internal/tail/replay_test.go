package tail

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

// tally is a printer that counts equal events.
type tally map[string]int

func (t tally) Event(e news.Event) []byte {
	t[fmt.Sprintf("%s %s, by %q", e.Type, e.Name, e.By.Name)]++
	return nil
}

func (tally) Status(news.Status) []byte { return nil }

// TestReplayLikeCollections: informers of one resource that differ in little, or in nothing, are
// played each as it was recorded.
func TestReplayLikeCollections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := recordLikeCollections(t)
		shown := tally{}
		screen := cli.NewScreen(io.Discard, io.Discard)
		defer screen.Close(time.Second)
		if err := Replay(t.Context(), rec, 1, history.Selection{}, screen, Options{Printer: shown, Initial: true}); err != nil {
			t.Fatal(err)
		}
		want := tally{
			`ADDED cm-1, by "writer"`: 4, `ADDED cm-1, by ""`: 1, // by nobody where managed fields are trimmed
			`ADDED cm-2, by "writer"`: 3, `ADDED cm-2, by ""`: 1, // after one informer has ended
		}
		if !maps.Equal(shown, want) {
			t.Errorf("shown %v\nwant  %v", shown, want)
		}
	})
}

// recordLikeCollections records five informers of ConfigMaps.
func recordLikeCollections(t *testing.T) *recording.Recording {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := tidings.NewFactory(server.Config(), tidings.Options{Recorder: recorder})
	if err != nil {
		t.Fatal(err)
	}
	resource := configMaps.GroupVersionResource
	brief, err := tidings.UnsharedInformer(f, tidings.Scope{}, tidings.UnsharedOptions[*corev1.ConfigMap]{})
	for _, create := range []func() error{
		func() error { _, err := tidings.Informer[*corev1.ConfigMap](f, tidings.Scope{}); return err },
		func() error {
			_, err := tidings.Informer[*corev1.ConfigMap](f, tidings.Scope{Trim: tidings.Trim{tidings.ManagedFields}})
			return err
		},
		func() error { _, err := tidings.Informer[object](f, tidings.Scope{Resource: resource}); return err },
		func() error {
			_, err := tidings.Informer[*metav1.PartialObjectMetadata](f, tidings.Scope{Resource: resource})
			return err
		},
	} {
		if err == nil {
			err = create()
		}
	}
	if err == nil {
		err = f.Start(t.Context())
	}
	if err == nil {
		err = f.WaitForSync(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		obj := configMap(n, 0)
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "writer", Operation: "Update"}})
		server.Create(obj)
		synctest.Wait()
		if err := brief.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
