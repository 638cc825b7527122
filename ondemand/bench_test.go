package ondemand_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/tidingstest"
)

// BenchmarkBodies reads 200 bodies of 2 kB, one by one and with one list. Both figures include the server's work.
func BenchmarkBodies(b *testing.B) {
	server := tidingstest.NewServer(b, tidingstest.ServerOptions{})
	for i := range 200 {
		server.Create(secret(fmt.Sprintf("%03d", i), strings.Repeat("x", 2000)))
	}
	inf := start[*corev1.Secret](b, server, tidings.Scope{}, ondemand.Options{
		MaxBytes: 1, Concurrency: 1, NeverHoldAll: true,
	})
	read := func(b *testing.B, read func() (ondemand.List[*corev1.Secret], error)) {
		for b.Loop() {
			if list, err := read(); err != nil || len(list.Items) != 200 {
				b.Fatal(len(list.Items), err)
			}
		}
	}
	b.Run("one by one", func(b *testing.B) {
		read(b, func() (ondemand.List[*corev1.Secret], error) {
			return inf.Bodies(b.Context(), inf.Metadata().Lister().All())
		})
	})
	b.Run("list", func(b *testing.B) {
		read(b, func() (ondemand.List[*corev1.Secret], error) { return inf.List(b.Context(), ondemand.ListOptions{}) })
	})
}
