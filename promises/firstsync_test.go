package promises_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest"
)

// TestFirstSyncIsNotHeldUp by servers and proxies that drop the bookmark behind the initial events,
// do not know what was asked for, or hold back what watches bring: with and without a budget, in
// namespaces, and when the file of an earlier run cannot be used.
func TestFirstSyncIsNotHeldUp(t *testing.T) {
	const most = 3 * time.Second
	faults := map[string]tidingstest.Fault{
		"no end of the initial events": {NoInitialEventsEnd: true},
		"no bookmarks at all":          {NoInitialEventsEnd: true, NoBookmarks: true},
		"silence":                      {End: tidingstest.Stall},
		"silence within":               {After: 50, End: tidingstest.Stall},
		"no response":                  {Delay: time.Hour},
		"drip":                         {Drip: time.Second},
	}
	scopes := map[string]tidings.Scope{"all": {}, "namespaces": {Namespaces: []string{"a", "b"}}}
	for name, fault := range faults {
		for of, scope := range scopes {
			for _, budget := range []int64{0, 1, 100_000} {
				t.Run(fmt.Sprintf("%s, %s, budget %d", name, of, budget), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
						for i := range 1200 { // lists take several pages
							server.Create(newPod([]string{"a", "b"}[i%2], fmt.Sprint("p", i)))
						}
						opts := tidings.Options{MemoryBudget: budget, Files: tidings.Files{Dir: t.TempDir()}}
						for _, run := range []string{"first", "second"} {
							server.InjectAlways(tidingstest.WatchList, fault)
							begun := time.Now()
							p := startProgram(t, server, opts, scope)
							p.sync()
							limit := most
							if name == "drip" {
								limit = 2 * most // it does bring something
							}
							if took := time.Since(begun); took > limit {
								t.Errorf("the %s sync took %v", run, took)
							}
							p.holds(server.Versions(podResource))
							server.ClearFaults()
							server.Create(newPod("a", "later-"+run))
							time.Sleep(time.Second)
							p.holds(server.Versions(podResource))
							p.stop()
							server.Create(newPod("b", "missed"+run))
							server.Compact() // so that the next run has to list
						}
					})
				})
			}
		}
	}
}
