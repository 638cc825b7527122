package engine

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestRewritesAreCounted: a list of another history counts, one that is merely taken as it is does not.
func TestRewritesAreCounted(t *testing.T) {
	at := func(version string) settings {
		o := namedSettings(1)
		o.UID, o.ResourceVersion = "a", version
		return o
	}
	for name, test := range map[string]struct {
		before  func(p *part[settings])
		object  settings
		version string
		want    uint64
	}{
		"next list":           {func(*part[settings]) {}, at("15"), "20", 0},
		"relist of the store": {func(p *part[settings]) { p.healing.unconditional.Store(true) }, at("15"), "20", 0},
		"older list":          {func(*part[settings]) {}, at("5"), "10", 1},
		"after a contradiction": {func(p *part[settings]) {
			p.Replace(object.Items[settings]{at("14")}, "20")
		}, at("14"), "20", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{
					Logger: slog.New(slog.DiscardHandler), NoWatchList: true,
				}, NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
				if err := inf.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				p := inf.currentParts()[0]
				p.Replace(object.Items[settings]{at("15")}, "15")
				test.before(p)
				p.Replace(object.Items[settings]{test.object}, test.version)
				// What contradicts the store is listed again, so there may be more than one.
				if got := inf.store.Snapshot().Rewrites(); min(got, 1) != test.want {
					t.Errorf("%d rewrites, want %d", got, test.want)
				}
				inf.Halt(nil)
				<-inf.done
			})
		})
	}
}
