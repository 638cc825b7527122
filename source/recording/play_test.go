package recording_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// TestVersionChecksAreSkipped: before it resumes a watch, a reflector may list one object to see
// the server's version. Whether it does depends on how long the watch was silent, and so on the
// speed of playing. A caller that does without must not get that list in place of the collection.
func TestVersionChecksAreSkipped(t *testing.T) {
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := recording.Record(recorder, source.ListerWatcher[*corev1.ConfigMap](script{}), source.Scope{Resource: configMaps})
	whole := source.ListOptions[*corev1.ConfigMap]{Limit: 500, Skip: func(*source.ObjectError) {}}
	check := whole
	check.Limit = 1
	watch := func(src source.ListerWatcher[*corev1.ConfigMap]) {
		t.Helper()
		stream, err := src.Watch(t.Context(), source.WatchOptions[*corev1.ConfigMap]{ResourceVersion: "7"})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for err == nil {
			_, err = stream.Next(nil)
		}
		if err != io.EOF {
			t.Error(err)
		}
	}
	list := func(src source.ListerWatcher[*corev1.ConfigMap], opts source.ListOptions[*corev1.ConfigMap]) {
		t.Helper()
		if _, err := src.List(t.Context(), opts, ignore); err != nil {
			t.Error(err)
		}
	}
	list(src, whole)
	watch(src)
	list(src, check)
	watch(src)
	list(src, check)
	list(src, whole)
	list(src, check)
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, checks := range []bool{true, false} {
		player, err := recording.Play[*corev1.ConfigMap](rec, rec.Collections()[0], recording.PlayOptions{Speed: recording.AtOnce})
		if err != nil {
			t.Fatal(err)
		}
		list(player, whole)
		watch(player)
		if checks {
			list(player, check)
		}
		watch(player)
		if checks {
			list(player, check)
		}
		list(player, whole)
		if _, err := player.List(t.Context(), whole, ignore); err != recording.ErrPlayed {
			t.Errorf("checks %t: after the end: %v", checks, err)
		}
		select {
		case <-player.Done():
		default:
			t.Errorf("checks %t: the recording is not over", checks)
		}
	}
}

// unencodable is a type whose method for JSON panics.
type unencodable struct{ corev1.ConfigMap }

func (u *unencodable) DeepCopyObject() runtime.Object { return &unencodable{*u.DeepCopy()} }
func (*unencodable) MarshalJSON() ([]byte, error)     { panic("not implemented") }

// TestPanicsWhileRecording: recording an object that cannot be encoded does not alter what the source delivers.
func TestPanicsWhileRecording(t *testing.T) {
	recorder, err := recording.NewRecorder(io.Discard, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := recording.Record(recorder, source.ListerWatcher[*unencodable](source.Funcs[*unencodable]{
		ListFunc: func(_ context.Context, _ source.ListOptions[*unencodable], each func(*unencodable) error) (source.ListResult, error) {
			return source.ListResult{}, each(&unencodable{*configMap(1, 1)})
		},
	}), source.Scope{Resource: configMaps})
	n := 0
	if _, err := src.List(t.Context(), source.ListOptions[*unencodable]{}, func(*unencodable) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d objects, %v", n, err)
	}
	if err := recorder.Close(); err != nil {
		t.Error(err)
	}
}
