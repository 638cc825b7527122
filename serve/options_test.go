package serve

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestOptionsAreChecked: what cannot work is refused at the start, with the name of the option, and does not panic or
// serve in an unexpected way later.
func TestOptionsAreChecked(t *testing.T) {
	for want, set := range map[string]func(*Options){
		"Options.Config is missing":             func(o *Options) { o.Config = nil },
		"no resources: name those":              func(o *Options) { o.Resources = nil },
		`"" is not the name of a resource`:      func(o *Options) { o.Resources = []string{"pods", ""} },
		`" nodes" is not the name`:              func(o *Options) { o.Resources = []string{"pods", " nodes"} },
		`"Pods" is not the name`:                func(o *Options) { o.Resources = []string{"Pods"} },
		`"pods/log" is not the name`:            func(o *Options) { o.Resources = []string{"pods/log"} },
		`"../pods" is not the name`:             func(o *Options) { o.Resources = []string{"../pods"} },
		`"secrets." is not the name`:            func(o *Options) { o.Resources = []string{"secrets."} },
		"(--serve-secrets)":                     func(o *Options) { o.Resources = []string{"secrets.v1."} },
		"JournalAge (--journal-age) is -1s":     func(o *Options) { o.JournalAge = -time.Second },
		"BookmarkInterval is 1ns":               func(o *Options) { o.BookmarkInterval = 1 },
		"WriteTimeout is 3ns":                   func(o *Options) { o.WriteTimeout = 3 },
		"WriteTimeout is -30s":                  func(o *Options) { o.WriteTimeout = -30 * time.Second },
		"SaveInterval is 2ns":                   func(o *Options) { o.SaveInterval = 2 },
		"JournalBytes (--journal-bytes) is -1":  func(o *Options) { o.JournalBytes = -1 },
		"(--requests-per-user) is -5":           func(o *Options) { o.RequestsPerUser = -5 },
		"(--long-running-per-user) is -2":       func(o *Options) { o.LongRunningPerUser = -2 },
		"(--memory-budget) is 512 bytes":        func(o *Options) { o.MemoryBudget = 512 },
		"(--memory-budget) is -1 bytes":         func(o *Options) { o.MemoryBudget = -1 },
		"has to be at least 10ms":               func(o *Options) { o.JournalAge = time.Millisecond },
		"MemoryBudget (--memory-budget) is 256": func(o *Options) { o.MemoryBudget = 256 },
	} {
		o := Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Resources: []string{"pods"}}
		set(&o)
		_, err := NewServer(o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "serve: ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, name := range []string{"pods", "pods.v1.", "deployments.apps", "deployments.v1.apps", "a-b.example.com",
		"networkpolicies.v1.networking.k8s.io", "v1.v1.v1"} {
		o := Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Resources: []string{name}}
		if _, err := o.withDefaults(); err != nil {
			t.Error(err)
		}
	}
}

// TestWatchTimeouts: those that no watch can last are left to the API server.
func TestWatchTimeouts(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "0": true, "1": true, "86400": true, "-1": false, "x": false, "1.5": false,
		"18446744074": false, "9223372036854775807": false, "9223372036854775808": false,
	} {
		if isWatchTimeout(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
