package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/tidings/tidings/object"
)

// TestTypeThatCannotBeSaved: a type that no codec knows is not saved, and the status says why.
func TestTypeThatCannotBeSaved(t *testing.T) {
	inf := New(Config[object.Object]{Name: "anything", Options: Options{Logger: slog.New(slog.DiscardHandler),
		Files: &FileOptions{Dir: t.TempDir(), Cluster: func(context.Context) (string, error) { return "test", nil }}}})
	f, err := inf.newFiles()
	if err != nil {
		t.Fatal(err)
	}
	if pf := f.ofPart(""); pf.path != "" || !errors.Is(pf.status.Err, errNotSaved) || pf.status.Err == errNotSaved {
		t.Errorf("%+v", pf)
	}
}
