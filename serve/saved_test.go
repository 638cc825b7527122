package serve

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/tidingstest"
)

// TestStartWithoutList: a replica with a directory goes on from where it ended, with the changes since and without a
// list.
func TestStartWithoutList(t *testing.T) {
	for _, budget := range []int64{0, budget} {
		t.Run(fmt.Sprint("budget=", budget), func(t *testing.T) { testStartWithoutList(t, budget) })
	}
}

func testStartWithoutList(t *testing.T, budget int64) {
	dir := t.TempDir()
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Dir: dir, MemoryBudget: budget})
	for i := range 200 {
		f.Create(configMap(fmt.Sprintf("map-%03d", i), "a"))
	}
	f.synced(t)
	f.replicas[0].stop()
	f.Update(configMap("map-000", "b"))
	f.Delete(configMap("map-001", "a"))

	lists, watchLists := f.Count(tidingstest.List), f.Count(tidingstest.WatchList)
	f.replicas[0] = startReplica(t, Options{
		Config: f.config, Resources: []string{"configmaps"}, Dir: dir, MemoryBudget: budget,
	})
	f.synced(t)
	list, err := f.maps(0).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(list.Items) != 199 || list.Items[0].Labels["half"] != "b" {
		t.Fatalf("%d objects, %v", len(list.Items), err)
	}
	if n := f.Count(tidingstest.WatchList) - watchLists; n != 0 {
		t.Errorf("%d WatchLists", n)
	}
	for _, r := range f.Requests(tidingstest.List)[lists:] {
		if r.Query.Get("limit") != "1" { // one object shows whether the server has the same history
			t.Errorf("a list: %v", r.Query)
		}
	}
}

// TestUnusableFiles: a file that is broken, or of another server, is replaced by a list, and the log says so.
func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	var logged bytes.Buffer
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Dir: dir})
	f.Create(configMap("x", "a"))
	f.synced(t)
	f.replicas[0].stop()
	other := newFixture(t, 1, tidingstest.ServerOptions{}, Options{Dir: dir, Logger: newLogger(&logged)})
	other.synced(t)
	list, err := other.maps(0).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	other.replicas[0].stop()
	if !strings.Contains(logged.String(), "cannot be used") {
		t.Error(logged.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "configmaps.tidings"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.replicas[0] = startReplica(t, Options{Config: f.config, Resources: []string{"configmaps"}, Dir: dir})
	f.synced(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewServer(Options{Config: f.config, Resources: []string{"configmaps"}, Dir: file}); err == nil ||
		!strings.Contains(err.Error(), "--dir") {
		t.Error(err)
	}
}

// TestSecretsAreNotSaved looks for a Secret's value in everything that a replica writes.
func TestSecretsAreNotSaved(t *testing.T) {
	dir := t.TempDir()
	f := &fixture{Server: tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})}
	f.config = (&reviewer{}).start(t, f.Server)
	r := startReplica(t, Options{Config: f.config, Resources: []string{"configmaps", "secrets"}, ServeSecrets: true,
		Dir: dir})
	f.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
		Data: map[string][]byte{"key": []byte("canary-in-a-file")}})
	eventually(t, func() bool { return r.resources[1].Collection.Stats().Objects == 1 })
	r.stop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
	if err != nil || bytes.Contains(data, []byte("canary-in-a-file")) {
		t.Error("a secret's value is in a file", err)
	}
}

// TestMemoryBudget: journals give way to the objects, and what does not fit is said.
func TestMemoryBudget(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{MemoryBudget: 8 << 20})
	random := testseed.Rand(t)
	newText := func() map[string]string { // that cannot be packed
		data := make([]byte, 375<<10)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		return map[string]string{"text": base64.StdEncoding.EncodeToString(data)}
	}
	big := configMap("x", "a")
	big.Data = newText()
	f.Create(big)
	for i := range 10 {
		big.Labels["half"] = fmt.Sprint(i)
		f.Update(big)
	}
	f.synced(t)
	r := f.replicas[0]
	if n := r.resources[0].Collection.Stats().JournalBytes; n < 4<<20 {
		t.Fatalf("a journal of %d bytes", n)
	}
	r.shareBudget()
	if text := r.overBudget(); text != "" {
		t.Error(text)
	}
	for i := range 8 {
		o := configMap(fmt.Sprint("more-", i), "a")
		o.Data = newText()
		f.Create(o)
	}
	f.synced(t)
	eventually(t, func() bool { return r.resources[0].Collection.Stats().Objects == 9 })
	r.shareBudget()
	if n := r.resources[0].Collection.Stats().JournalBytes; n > 2*minJournal {
		t.Errorf("a journal of %d bytes", n)
	}
	if text := r.overBudget(); text != "" {
		t.Error(text) // 9 objects and the least journal just fit
	}
	for i := range 10 {
		o := configMap(fmt.Sprint("too-many-", i), "a")
		o.Data = newText()
		f.Create(o)
	}
	eventually(t, func() bool { return r.resources[0].Collection.Stats().Objects == 19 })
	if text := r.overBudget(); !strings.Contains(text, "configmaps: 19 objects") ||
		!strings.Contains(text, "--memory-budget") {
		t.Errorf("%q", text)
	}
	_, body := answerTo(t, r.config(as(f.config, "user")), "/readyz?verbose", nil)
	if !strings.Contains(body, "configmaps: 19 objects") {
		t.Error(body)
	}
	if _, err := ParseBytes("512Mi"); err != nil {
		t.Error(err)
	}
}
