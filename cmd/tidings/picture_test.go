//go:build unix

package main

import (
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/picture"
	"github.com/tidings/tidings/cmd/tidings/internal/top"
	"github.com/tidings/tidings/source/recording"
)

// TestPictures compares the pictures in docs with what the commands show of a recorded rollout; -update draws them.
func TestPictures(t *testing.T) {
	tail := onTerminal(t, 100, true, "replay", rollout, "deploy,rs,pods,secrets,cm",
		"--speed", "max", "--count", "12", "--fields")
	checkPicture(t, "tail", picture.SVG("tidings tail shows each change, field by field, with its author",
		"tidings tail deploy,rs,pods,secrets,cm -n news", tail))
	story := onTerminal(t, 100, true, "timeline", "deploy/web", "--tree", "--from", rollout, "--fields")
	checkPicture(t, "timeline", picture.SVG("tidings timeline tells what happened to a deployment and what it owns",
		"tidings timeline deploy/web --tree --from rollout.tidings", story))
	checkPicture(t, "top", picture.SVG("tidings top shows who writes most, and who fights over a field",
		"tidings top all -n news", topScreen(t)))
}

// topScreen returns the screen of top at the end of the rollout, which happens again in virtual time.
func topScreen(t *testing.T) (screen string) {
	synctest.Test(t, func(t *testing.T) {
		rec, err := recording.Open(rollout)
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close()
		began, _ := rec.Began()
		started := time.Now()
		counter := top.New(started)
		counter.KeepChanges()
		for item, err := range history.Of(rec) {
			if err != nil {
				t.Fatal(err)
			}
			item.Time = started.Add(item.Time.Sub(began))
			if item.Kind == history.Change && !item.Initial {
				time.Sleep(time.Until(item.Time))
				counter.Event(history.Event(item, news.Options{}))
			}
		}
		ui := top.NewUI(counter, top.Start{Title: "tidings top all", By: top.ByObject, Sort: "writes"})
		ui.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
		screen = ui.View().Content
	})
	return screen
}

// checkPicture checks that a picture is XML, and as it is in docs.
func checkPicture(t *testing.T, name, svg string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	file := "../../docs/pictures/" + name + ".svg"
	if *update {
		if err := os.WriteFile(file, []byte(svg), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != svg {
		t.Errorf("%s is another picture; if that is meant, run the test with -update", file)
	}
}
