package promises_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

// TestRecordedInformersFoldAndSave: recording makes no difference, even if the objects' type is
// only known from the source.
func TestRecordedInformersFoldAndSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(newPod("shop", "p"))
		client, err := source.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		recorder, err := recording.NewRecorder(new(bytes.Buffer), recording.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := tidings.NewSourceFactory(tidings.Options{MemoryBudget: 1, Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}, Recorder: recorder})
		tidings.SetSource(f, func(scope tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
			return source.NewHTTPLike(client, scope.Source(namespace), newPod("", ""))
		})
		inf, err := tidings.Informer[tidings.Object](f, tidings.Scope{Resource: podResource})
		if err == nil {
			err = f.Start(t.Context())
		}
		if err == nil {
			err = f.WaitForSync(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if st := inf.Status(); st.Memory.Folded != 1 || st.Parts[0].File.Saves != 1 {
			t.Errorf("%+v, %+v", st.Memory, st.Parts[0].File)
		}
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
	})
}
