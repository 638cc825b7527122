package recorder

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
)

// at returns pod a/x at a version.
func at(version string) *corev1.Pod {
	p := pod("a", "x")
	p.ResourceVersion = version
	return p
}

type delta = object.Delta[*corev1.Pod]

var key = object.Key{Namespace: "a", Name: "x"}

func TestRecorderNotesBrokenPromises(t *testing.T) {
	added := delta{Type: object.Added, Key: key, Object: at("5")}
	deleted := delta{Type: object.Deleted, Key: key, Object: at("7")}
	tests := []struct {
		want   string // empty if nothing is wrong
		deltas []delta
	}{
		{"", []delta{added, {Type: object.Updated, Key: key, Object: at("6"), Old: at("5")},
			{Type: object.Sync, Key: key, Object: at("6"), Old: at("6")}, deleted, {Type: object.Added, Key: key, Object: at("8")},
			{Type: object.Replaced, Key: key, Object: at("9"), Old: at("8")}}},
		{"added before", []delta{added, added}},
		{"never added", []delta{{Type: object.Updated, Key: key, Object: at("6"), Old: at("5")}}},
		{"never added", []delta{deleted}},
		{"never added", []delta{added, deleted, deleted}},
		{"no object", []delta{{Type: object.Added, Key: key}}},
		{"no object", []delta{added, {Type: object.Deleted, Key: key}}},
		{"no object", []delta{added, {Type: object.Updated, Key: key, Old: at("5")}, {Type: object.Updated, Key: key, Object: at("6"), Old: at("5")}}},
		{"no old object", []delta{added, {Type: object.Updated, Key: key, Object: at("6")}}},
		{`version "4", but the last one was`, []delta{added, {Type: object.Updated, Key: key, Object: at("6"), Old: at("4")}}},
		{"nothing changed", []delta{added, {Type: object.Updated, Key: key, Object: at("5"), Old: at("5")}}},
		{"resync changed", []delta{added, {Type: object.Sync, Key: key, Object: at("6"), Old: at("5")}}},
		{"back in time from version 5 to 4", []delta{added, {Type: object.Updated, Key: key, Object: at("4"), Old: at("5")}}},
		{"back in time to version 6", []delta{added, deleted, {Type: object.Added, Key: key, Object: at("6")}}},
		{"its object is a/x", []delta{{Type: object.Added, Key: object.Key{Name: "y"}, Object: at("5")}}},
		{"can be initial", []delta{added, {Type: object.Updated, Key: key, Object: at("6"), Old: at("5"), Initial: true}}},
		{"can be missed", []delta{{Type: object.Added, Key: key, Object: at("6"), FinalStateUnknown: true}}},
		{"unknown type", []delta{{Key: key, Object: at("6")}}},
	}
	for _, test := range tests {
		var r Recorder[*corev1.Pod]
		for _, d := range test.deltas {
			r.Delta(d)
		}
		err := r.Err()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("got %v, want %q", err, test.want)
		}
		if r.Len() != len(test.deltas) || len(r.Deltas()) != r.Len() {
			t.Errorf("%d deltas", r.Len())
		}
	}
}

func TestRecorderNotesOverlap(t *testing.T) {
	var r Recorder[*corev1.Pod]
	r.inside.Store(true) // another Delta is running
	r.Delta(delta{Type: object.Added, Key: key, Object: at("5")})
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "while another") {
		t.Errorf("got %v", err)
	}
}

func TestRecorderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder[*corev1.Pod]
		time.AfterFunc(time.Hour, func() { r.Delta(delta{Type: object.Added, Key: key, Object: at("5")}) })
		if err := r.WaitVersions(t.Context(), map[object.Key]string{key: "5"}); err != nil {
			t.Error(err)
		}
		if r.State()[key].ResourceVersion != "5" {
			t.Errorf("state %v", r.State())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := r.WaitVersions(ctx, map[object.Key]string{key: "6", {Name: "y"}: "1"})
		if err == nil || !strings.Contains(err.Error(), "a/x is at version 5 instead of 6, y is missing") {
			t.Errorf("got %v", err)
		}
		if err := r.WaitVersions(ctx, nil); err == nil || !strings.Contains(err.Error(), "a/x should not be there") {
			t.Errorf("got %v", err)
		}
	})
}

func pod(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.Labels = namespace, name, map[string]string{"app": name}
	return p
}

func TestRecorderCountsRewinds(t *testing.T) {
	var r Recorder[*corev1.Pod]
	back := []delta{
		{Type: object.Updated, Key: key, Object: at("4"), Old: at("5")},
		{Type: object.Deleted, Key: key, Object: at("6")},
		{Type: object.Added, Key: key, Object: at("3")},
	}
	r.AllowRewrites()
	r.Delta(delta{Type: object.Added, Key: key, Object: at("5")})
	for _, d := range back {
		r.Delta(d)
	}
	if r.Err() != nil || r.Rewinds() != 2 {
		t.Errorf("%d rewinds, %v", r.Rewinds(), r.Err())
	}
}
