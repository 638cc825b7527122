package reflector_test

import (
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/reflector"
)

func TestHistory(t *testing.T) {
	outage := read{after: time.Minute, err: io.ErrUnexpectedEOF}
	runScripts(t, []scripted{{
		name: "a restored server: behind three times, then everything anew",
		answers: []answer{
			stream(got(added("a@80"), initialEnd("90")), outage),
			failed(errInternal),
			page("50", ""),
			stream(got(added("a@30"), initialEnd("51"))),
			stream(got(added("a@30"), initialEnd("51"))),
			stream(got(added("a@30"), initialEnd("52")), got(bookmark("53"))),
		},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error server error in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server is behind in checking, attempt 3
			1m3.3s watchlist ""
			1m3.3s error server is behind in watch-listing, attempt 4
			1m5.8s watchlist ""
			1m5.8s error history rewritten in watch-listing, attempt 5
			1m5.8s watchlist ""
			1m5.8s replace [a@30] @52
			1m5.8s add nothing @53`,
	}, {
		name: "pages: the first one is enough",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{
			page("90", "", "a@80"),
			stream(outage),
			failed(errInternal),
			page("50", ""),
			page("51", "p2", "a@30"),
			page("51", "p2", "a@30"),
			page("52", "p2", "a@30"),
			page("52", "", "b@31"),
			stream(),
		},
		want: `
			0s list "" limit=500 token=""
			0s replace [a@80] @90
			0s watch "90"
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error server error in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server is behind in checking, attempt 3
			1m3.3s list "" limit=500 token=""
			1m3.3s error server is behind in listing, attempt 4
			1m5.8s list "" limit=500 token=""
			1m5.8s error history rewritten in listing, attempt 5
			1m5.8s list "" limit=500 token=""
			1m5.8s list "" limit=500 token="p2"
			1m5.8s replace [a@30 b@31] @52
			1m5.8s watch "52"`,
	}, {
		name: "a stale replica is refused once, and is no rewritten history",
		answers: []answer{
			stream(got(added("a@80"), initialEnd("90")), outage),
			failed(errInternal),
			page("50", ""),
			stream(got(added("a@80"), initialEnd("91")), outage),
			failed(errInternal),
			page("60", ""),
			stream(got(added("a@80"), initialEnd("92"))),
		},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error server error in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server is behind in checking, attempt 3
			1m3.3s watchlist ""
			1m3.3s replace [a@80] @91
			2m3.3s error network in watching, attempt 1
			2m3.3s watch "91"
			2m3.3s error server error in watching, attempt 2
			2m4.1s list "" limit=1 token=""
			2m4.1s error server is behind in checking, attempt 3
			2m6.6s watchlist ""
			2m6.6s replace [a@80] @92`,
	}, {
		name: "a stale replica of several that is met twice is no rewritten history",
		answers: []answer{stream(got(added("a@80"), initialEnd("90")), outage), failed(errInternal), page("50", ""),
			stream(got(added("a@30"), initialEnd("60"))), stream(got(added("a@80"), initialEnd("91")))},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error server error in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server is behind in checking, attempt 3
			1m3.3s watchlist ""
			1m3.3s error server is behind in watch-listing, attempt 4
			1m5.8s watchlist ""
			1m5.8s replace [a@80] @91`,
	}, {
		name: "a restored server that has come past the old history, once it was behind",
		answers: []answer{
			stream(got(added("a@80"), initialEnd("90")), outage),
			failed(errInternal),
			page("50", ""),
			stream(got(added("a@30"), initialEnd("95"))),
			stream(got(added("a@30"), initialEnd("96")), got(bookmark("97"))),
		},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error server error in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server is behind in checking, attempt 3
			1m3.3s watchlist ""
			1m3.3s error history rewritten in watch-listing, attempt 4
			1m3.3s watchlist ""
			1m3.3s replace [a@30] @96
			1m3.3s add nothing @97`,
	}, {
		name: "the same in pages",
		opts: reflector.Options[thing]{DisableWatchList: true},
		answers: []answer{
			page("90", "", "a@80"),
			stream(outage),
			failed(errInternal),
			page("50", ""),
			page("95", "p2", "a@30"),
			page("95", "", "b@31"),
			page("96", "p2", "a@30"),
			page("96", "", "b@31"),
			stream(),
		},
		want: `
			0s list "" limit=500 token=""
			0s replace [a@80] @90
			0s watch "90"
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error server error in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server is behind in checking, attempt 3
			1m3.3s list "" limit=500 token=""
			1m3.3s list "" limit=500 token="p2"
			1m3.3s error history rewritten in listing, attempt 4
			1m3.3s list "" limit=500 token=""
			1m3.3s list "" limit=500 token="p2"
			1m3.3s replace [a@30 b@31] @96
			1m3.3s watch "96"`,
	}, {
		name:    "the versions of a warm start are of another history",
		opts:    reflector.Options[thing]{DisableWatchList: true},
		hooks:   from("90"),
		answers: []answer{page("50", ""), page("51", ""), page("51", ""), page("51", ""), stream()},
		want: `
			0s list "" limit=1 token=""
			0s error server is behind in checking, attempt 1
			2.5s list "" limit=500 token=""
			2.5s error server is behind in listing, attempt 2
			5s list "" limit=500 token=""
			5s error history rewritten in listing, attempt 3
			5s list "" limit=500 token=""
			5s replace [] @51
			5s watch "51"`,
	}, {
		name: "a check that is not answered is repeated, one that is refused is left out",
		answers: []answer{
			stream(got(initialEnd("90")), outage),
			failed(io.ErrUnexpectedEOF),
			failed(io.ErrUnexpectedEOF),
			failed(errBusy),
			failed(errForbidden),
			stream(got(bookmark("91"))),
		},
		want: `
			0s watchlist ""
			0s replace [] @90
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error network in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error network in checking, attempt 3
			1m2.4s list "" limit=1 token=""
			1m2.4s error too many requests in checking, attempt 4
			1m9.4s list "" limit=1 token=""
			1m9.4s watch "90"
			1m9.4s add nothing @91`,
	}, {
		name: "a server that fails all lists is not checked for ever",
		answers: []answer{
			stream(got(initialEnd("90")), outage),
			failed(io.ErrUnexpectedEOF),
			failed(errInternal),
			failed(errInternal),
			failed(errInternal),
			stream(got(bookmark("91"))),
		},
		want: `
			0s watchlist ""
			0s replace [] @90
			1m0s error network in watching, attempt 1
			1m0s watch "90"
			1m0s error network in watching, attempt 2
			1m0.8s list "" limit=1 token=""
			1m0.8s error server error in checking, attempt 3
			1m1.6s list "" limit=1 token=""
			1m1.6s error server error in checking, attempt 4
			1m3.2s list "" limit=1 token=""
			1m3.2s watch "90"
			1m3.2s add nothing @91`,
	}, {
		name: "a watch that was silent for long is followed by a check, also if the server closed it",
		answers: []answer{
			stream(got(initialEnd("90")), clean(2*time.Minute)),
			page("95", ""),
			stream(read{after: time.Minute, events: events{bookmark("96")}}, clean(time.Minute)),
			stream(got(bookmark("97"))),
		},
		want: `
			0s watchlist ""
			0s replace [] @90
			2m0s list "" limit=1 token=""
			2m0s watch "90"
			3m0s add nothing @96
			4m0s watch "96"
			4m0s add nothing @97`,
	}, {
		name: "a restored server that ended the watch and was there at once: the next watch is silent, and is checked",
		answers: []answer{stream(got(added("a@80"), initialEnd("90")), clean(time.Minute)), stream(), page("50", ""),
			stream(got(added("a@30"), initialEnd("51"))), stream(got(added("a@30"), initialEnd("51"))),
			stream(got(added("a@30"), initialEnd("52")), got(bookmark("53")))},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s watch "90"
			2m30s list "" limit=1 token=""
			2m30s error server is behind in checking, attempt 1
			2m32.5s watchlist ""
			2m32.5s error server is behind in watch-listing, attempt 2
			2m35s watchlist ""
			2m35s error history rewritten in watch-listing, attempt 3
			2m35s watchlist ""
			2m35s replace [a@30] @52
			2m35s add nothing @53`,
	}, {
		name: "the same with a watch that brings what is older: that does not count",
		answers: []answer{stream(got(added("a@80"), initialEnd("90")), clean(time.Minute)),
			stream(
				after(30*time.Second, bookmark("50")),
				after(30*time.Second, modified("a@55")),
				after(20*time.Second, bookmark("56")),
			), page("60", ""),
			stream(got(added("a@55"), initialEnd("61"))), stream(got(added("a@55"), initialEnd("61"))),
			stream(got(added("a@55"), initialEnd("62")), after(2*time.Minute, bookmark("63")))},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s watch "90"
			1m30s add nothing @90
			2m0s add Updated a@55 @90
			2m20s add nothing @90
			2m30s list "" limit=1 token=""
			2m30s error server is behind in checking, attempt 1
			2m32.5s watchlist ""
			2m32.5s error server is behind in watch-listing, attempt 2
			2m35s watchlist ""
			2m35s error history rewritten in watch-listing, attempt 3
			2m35s watchlist ""
			2m35s replace [a@55] @62
			4m35s add nothing @63`,
	}, {
		name: "the same behind a proxy that ends silent watches sooner",
		answers: []answer{
			stream(got(added("a@80"), initialEnd("90")), clean(time.Minute)),
			stream(clean(50 * time.Second)),
			stream(clean(50 * time.Second)),
			stream(clean(50 * time.Second)),
			page("50", ""),
			stream(
				got(added("a@30"), initialEnd("51")),
			),
			stream(got(added("a@30"), initialEnd("51"))),
			stream(got(added("a@30"), initialEnd("52")), got(bookmark("53"))),
		},
		want: `
			0s watchlist ""
			0s replace [a@80] @90
			1m0s watch "90"
			1m50s watch "90"
			2m40s watch "90"
			3m30s list "" limit=1 token=""
			3m30s error server is behind in checking, attempt 1
			3m32.5s watchlist ""
			3m32.5s error server is behind in watch-listing, attempt 2
			3m35s watchlist ""
			3m35s error history rewritten in watch-listing, attempt 3
			3m35s watchlist ""
			3m35s replace [a@30] @52
			3m35s add nothing @53`,
	}, {
		name: "a server without bookmarks, where nothing happens, is checked once",
		answers: []answer{
			stream(got(initialEnd("90")), clean(time.Minute)),
			stream(read{after: 270 * time.Second, events: events{added("a@96")}}),
			page("95", ""),
		},
		want: `
			0s watchlist ""
			0s replace [] @90
			1m0s watch "90"
			2m30s list "" limit=1 token=""
			5m30s add Added a@96 @96`,
	}, {
		name:    "versions that cannot be compared are not checked",
		answers: []answer{stream(got(initialEnd("zz")), outage), failed(errInternal), stream()},
		want: `
			0s watchlist ""
			0s replace [] @zz
			1m0s error network in watching, attempt 1
			1m0s watch "zz"
			1m0s error server error in watching, attempt 2
			1m0.8s watch "zz"`,
	}})
}

// The list that follows reuses nothing of the history before.
func TestRewrittenHistoryReusesNothing(t *testing.T) {
	var log strings.Builder
	s := &script{
		answers: []answer{
			page("90", "", "a@80"),
			stream(read{after: time.Minute, err: io.ErrUnexpectedEOF}),
			failed(errInternal),
			page("50", ""),
			page("51", "", "a@30"),
			page("51", "", "a@30"),
			page("52", "", "a@30"),
			stream(),
		},
	}
	opts := reflector.Options[thing]{DisableWatchList: true,
		Logger: slog.New(slog.NewTextHandler(&log, nil))}
	status := play(t, s, opts, 2*time.Minute)
	const want = "list:true watch:true watch:true list:true list:false list:false list:false watch:true"
	if got := strings.Join(s.reused, " "); got != want {
		t.Errorf("asked to reuse objects: %s", got)
	}
	if status.Rewrites != 1 || status.ResourceVersion != "52" || status.Problem != nil || status.Lists != 2 {
		t.Errorf("status %+v", status)
	}
	if !strings.Contains(log.String(), "level=ERROR") ||
		!strings.Contains(log.String(), "probably restored from a backup") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}
}

// TestRestoredServer restores a server from a backup, with every way in which it may respond then,
// and checks after a minute.
func TestRestoredServer(t *testing.T) {
	seeds(t, 50, func(t *testing.T, seed uint64) {
		random := seeded(seed)
		server := newModel(seeded(seed + 1))
		server.trouble, server.neverEnds = false, false
		sink := newReplica(t)
		r, err := reflector.New(
			reflector.Options[thing]{
				Source:   server,
				Sink:     sink,
				Previous: sink.previous,
				OnError:  sink.onError,
				Seed:     seed,
				PageSize: 3,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, r)
		for range 200 {
			time.Sleep(5 * time.Second)
			server.write()
		}
		down := time.Duration(random.Int64N(int64(5 * time.Minute)))
		server.restore(down)
		time.Sleep(down)
		for range 12 {
			server.write()
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		stop()
		if want, got := server.state(len(server.changes)), sink.states(); !maps.Equal(got, want) {
			t.Errorf("a minute after an outage of %v, the sink holds %v, the server %v", down, got, want)
		}
		if st := r.Status(); st.Rewrites != 1 || st.Problem != nil {
			t.Errorf("%d rewrites, problem %v", st.Rewrites, st.Problem)
		}
	})
}
