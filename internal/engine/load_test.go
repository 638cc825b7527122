package engine

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// panicky is an object of a user's type that cannot bear to be decoded.
type panicky struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              panickySpec `json:"spec"`
}

type panickySpec struct{}

func (panickySpec) UnmarshalJSON([]byte) error { panic("no, thank you") }

func (p *panicky) DeepCopyObject() runtime.Object {
	return &panicky{TypeMeta: p.TypeMeta, ObjectMeta: *p.ObjectMeta.DeepCopy()}
}

// TestPanicWhileObjectsAreOpened, in the code of their type, is a reason not to use the file.
func TestPanicWhileObjectsAreOpened(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		synctest.Test(t, func(t *testing.T) {
			inf := New(Config[*panicky]{Name: "panickies", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler),
				Files: &FileOptions{Dir: t.TempDir(), Cluster: func(context.Context) (string, error) { return "test", nil }}},
				NewSource: func(string) (source.ListerWatcher[*panicky], error) { return source.Funcs[*panicky]{}, nil },
			})
			if folding {
				inf.useMemory(NewMemory(1, slog.New(slog.DiscardHandler)))
			}
			if _, err := inf.Subscribe(func(object.Delta[*panicky]) {}, HandlerOptions{}); err != nil {
				t.Fatal(err)
			}
			var err error
			if inf.files, err = inf.newFiles(); err != nil {
				t.Fatal(err)
			}
			pf := inf.files.ofPart("")
			identity := maps.Clone(pf.identity)
			identity["cluster"] = "test"
			err = file.WriteFile(pf.path, file.Header{Identity: identity, ResourceVersions: map[string]string{"": "7"}}, file.Options{}, func(w *file.Writer) error {
				var packer fold.Packer
				data := `{"metadata":{"name":"a","uid":"u","resourceVersion":"5"},"spec":{}}`
				return w.Write(file.Record{Name: "a", UID: "u", ResourceVersion: "5", Object: packer.Pack([]byte(data), nil)})
			})
			if err != nil {
				t.Fatal(err)
			}
			p, err := inf.newTestPart(pf)
			if err != nil {
				t.Fatal(err)
			}
			held, err := p.resume(t.Context())
			if why := p.fileStatus().Discarded; err != nil || held.ResourceVersion != "" || why == nil || !strings.Contains(why.Error(), "no, thank you") {
				t.Errorf("resumed at %q, %v; discarded for %v", held.ResourceVersion, err, why)
			}
			inf.Halt(nil)
			<-inf.done
		})
	})
}
