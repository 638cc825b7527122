package shards

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/tidingstest"
)

// TestMissingRights forbids each request of a start.
func TestMissingRights(t *testing.T) {
	for _, verb := range []string{"list", "create"} {
		synctest.Test(t, func(t *testing.T) {
			r := &Replica{
				Client: &leaseClient{api: newLeaseAPI(), forbidden: verb},
				Name:   "group", Identity: "a", Shards: 3, Logger: slog.New(slog.DiscardHandler),
			}
			err := r.Lead(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
			const rule = "verbs: [list, watch, create, update, delete]"
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), rule) {
				t.Errorf("%s: %v", verb, err)
			}
		})
	}
}

func TestWrongFields(t *testing.T) {
	for want, change := range map[string]func(r *Replica){
		"have to be set":       func(r *Replica) { r.Identity = "" },
		"at most 63":           func(r *Replica) { r.Name = strings.Repeat("x", 64) },
		"0 shards, want 1 to":  func(r *Replica) { r.Shards = 0 },
		"want whole seconds":   func(r *Replica) { r.Duration = 1500 * time.Millisecond },
		"RetryPeriod and a":    func(r *Replica) { r.RenewDeadline = time.Minute },
		"10001 shards, want 1": func(r *Replica) { r.Shards = 10001 },
	} {
		r := &Replica{Client: &leaseClient{api: newLeaseAPI()}, Name: "group", Identity: "a", Shards: 1}
		change(r)
		if err := r.Lead(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestOtherLayout replaces replicas by those with another number of shards. These wait until the last of the others has
// gone, and are ready.
func TestOtherLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 20)
		first, second := w.start(), w.start()
		time.Sleep(5 * time.Second)
		w.adjust = func(p *process) { p.replica.For = "something else" }
		third := w.start()
		time.Sleep(time.Minute)
		first.stop()
		time.Sleep(time.Second)
		if n, m := len(second.replica.Held()), len(third.replica.Held()); n != 20 || m != 0 {
			t.Errorf("the old one has %d shards, the new one %d", n, m)
		}
		if st := third.replica.Stats(); !strings.Contains(st.Waiting, second.id) || third.replica.Ready() != nil {
			t.Errorf("waiting: %q, ready: %v", st.Waiting, third.replica.Ready())
		}
		second.stop()
		time.Sleep(time.Second)
		if n := len(third.replica.Held()); n != 20 || third.replica.Stats().Waiting != "" {
			t.Errorf("the new one has %d shards", n)
		}
		w.stopAll()
	})
}

// TestEditedByHand deletes and changes Leases. Each replica whose Lease or table is not what it was stops, and takes part
// again.
func TestEditedByHand(t *testing.T) {
	for what, edit := range map[string]func(w *world, p *process, lease string){
		"the Lease is deleted": func(w *world, _ *process, lease string) { w.api.edit(lease, nil) },
		"the table is deleted": func(w *world, _ *process, _ string) { w.api.edit("group", nil) },
		"the table is old": func(w *world, _ *process, _ string) {
			w.api.edit("group", func(l *coordinationv1.Lease) { *l.Spec.LeaseTransitions = 0 })
		},
		"the shards are somebody else's": func(w *world, _ *process, lease string) {
			w.processes()[1].pause(5 * time.Second) // or it gives them back before the first one looks
			w.api.edit("group", func(l *coordinationv1.Lease) {
				*l.Spec.LeaseTransitions++
				l.Annotations[ownersKey] = strings.Replace(l.Annotations[ownersKey], lease, "somebody", 1)
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, 20)
			first, second := w.start(), w.start()
			time.Sleep(5 * time.Second)
			names, _ := w.api.backup()
			lease := ""
			for name, l := range names {
				if name != "group" && *l.Spec.HolderIdentity == first.id {
					lease = name
				}
			}
			edit(w, first, lease)
			time.Sleep(30 * time.Second)
			if n, m := len(first.replica.Held()), len(second.replica.Held()); n+m != 20 || n == 0 || m == 0 {
				t.Errorf("%s: one has %d shards, the other %d", what, n, m)
			}
			if first.replica.Stats().Losses == 0 {
				t.Errorf("%s: not noticed", what)
			}
			w.stopAll()
			w.checkReconciled()
		})
	}
}

// TestPausedOwner takes the CPU from a replica for a minute. When it is back, it starts nothing.
func TestPausedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 4)
		w.start()
		time.Sleep(5 * time.Second)
		held := w.processes()[0].replica.Held()
		r := w.processes()[0].replica
		w.processes()[0].pause(time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		for s := range held {
			if _, _, ok := r.Begin(t.Context(), s); ok {
				t.Errorf("work on shard %d starts", s)
			}
		}
		time.Sleep(time.Second)
		if n := len(r.Held()); n != 4 {
			t.Errorf("has %d shards after it was back", n)
		}
		w.stopAll()
	})
}

// TestWorkThatDoesNotEnd cuts a replica off whose work ignores the end of its context: Lead has to return before others may
// begin.
func TestWorkThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 4)
		release := make(chan struct{})
		w.adjust = func(p *process) {
			p.takes = func() time.Duration { return time.Hour }
			p.lingers = func() time.Duration { <-release; return 0 }
		}
		p := w.start()
		time.Sleep(20 * time.Second)
		p.setCut(true)
		start := p.replica.Stats().LastRenewal
		<-p.done
		if took := time.Since(start); !errors.Is(p.err, ErrStillRunning) || took > 14*time.Second {
			t.Errorf("%v after %v", p.err, took)
		}
		close(release)
		time.Sleep(time.Minute)
	})
}

// TestOverHTTP uses the client that New makes.
func TestOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var replicas []*Replica
		ended := make(chan error)
		for range 3 {
			r, err := New(server.Config(), "default", "group", 30)
			if err != nil {
				t.Fatal(err)
			}
			r.Logger = slog.New(slog.DiscardHandler)
			replicas = append(replicas, r)
			go func() {
				ended <- r.Lead(ctx, func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				})
			}()
		}
		time.Sleep(time.Second)
		var held []int
		for _, r := range replicas {
			for s := range r.Held() {
				held = append(held, s)
			}
			if st := r.Stats(); st.Members != 3 || st.Held == 0 {
				t.Errorf("%+v", st)
			}
		}
		if slices.Sort(held); len(held) != 30 || len(slices.Compact(held)) != 30 {
			t.Errorf("held: %v", held)
		}
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if leases := server.Objects(coordinationv1.SchemeGroupVersion.WithResource("leases")); len(leases) != 1 {
			t.Errorf("%d Leases are left", len(leases))
		}
	})
}
