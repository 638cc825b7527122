package ondemand_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/tidingstest"
)

// TestHoldsAllWhileThatPays: 200 Secrets, each of which is written and read every minute, are soon held, and let go
// when nobody reads them any more.
func TestHoldsAllWhileThatPays(t *testing.T) {
	for _, never := range []bool{false, true} {
		t.Run(fmt.Sprintf("never=%v", never), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				name := func(i int) string { return fmt.Sprintf("%03d", i) }
				for i := range 200 {
					server.Create(secret(name(i), "0"))
				}
				inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{NeverHoldAll: never})
				large := strings.Repeat("x", 2000)
				for minute := range 10 {
					before := server.Count(tidingstest.Get)
					for i := range 200 {
						value := fmt.Sprint(minute, large)
						version := server.Update(secret(name(i), value))
						if err := inf.Metadata().WaitForVersion(t.Context(), "default", version); err != nil {
							t.Fatal(err)
						}
						synctest.Wait() // so that the watch of all has brought it as well
						mustGet(t, inf, name(i), value)
					}
					requests := server.Count(tidingstest.Get) - before
					wrong := never && requests != 200 || !never && minute > 1 && requests != 0
					if held := inf.HoldsAll(); wrong || minute > 0 && held == never {
						t.Errorf("minute %d: held=%v, %d requests", minute, held, requests)
					}
					time.Sleep(time.Minute)
				}
				time.Sleep(time.Hour)
				if inf.HoldsAll() {
					t.Error("held after an hour without readers")
				}
				before := server.Count(tidingstest.Get)
				mustGet(t, inf, name(7), fmt.Sprint(9, large))
				if got := server.Count(tidingstest.Get) - before; got != 1 {
					t.Errorf("%d requests for a body that is not held any more", got)
				}
			})
		})
	}
}

// TestWatchOfAllIsForbidden: what cannot be held is requested, as before.
func TestWatchOfAllIsForbidden(t *testing.T) {
	ondemand.HoldEagerly(t)
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range 10 {
			server.Create(secret(fmt.Sprint(i), "v"))
		}
		inf := start[*corev1.Secret](t, server, tidings.Scope{}, ondemand.Options{})
		forbidden := tidingstest.Fault{Err: apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)}
		server.InjectAlways(tidingstest.WatchList, forbidden)
		server.InjectAlways(tidingstest.List, forbidden)
		for i := range 10 {
			mustGet(t, inf, fmt.Sprint(i), "v")
		}
		if got := server.Count(tidingstest.Get); got != 10 || !inf.HoldsAll() {
			t.Errorf("%d requests, held=%v", got, inf.HoldsAll())
		}
	})
}
