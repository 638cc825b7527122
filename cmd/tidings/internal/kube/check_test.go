package kube

import (
	"slices"
	"testing"
)

func TestCheckFlags(t *testing.T) {
	for arg, ok := range map[string]bool{
		"":                                true,
		"--server=https://10.0.0.1:643":   true,
		"--server=http://x/prefix":        true,
		"--server=10.0.0.1:6443":          true,
		"--server=localhost":              true,
		"--server=ftp://x":                false,
		"--server=https://10.0.0.1:65535": true,
		"--server=https://10.0.0.1:65536": false,
		"--server=https://":               false,
		"--server=::bad":                  false,
		"--as-group=admins":               false,
		"--as-uid=7":                      false,
		"--as=eve":                        true,
	} {
		var args []string
		if arg != "" {
			args = []string{arg}
		}
		f, _ := parse(t, args...)
		if err := f.CheckFlags(); (err == nil) != ok {
			t.Errorf("%s: %v", arg, err)
		}
	}
	f, _ := parse(t, "--as=eve", "--as-group=admins")
	if err := f.CheckFlags(); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	setup(t, kubeconfig)
	f, _ := parse(t)
	if got := f.Contexts(); !slices.Equal(got, []string{"lab", "shop", "torn"}) {
		t.Errorf("contexts %v", got)
	}
	if got := f.Clusters(); !slices.Equal(got, []string{"east", "west"}) {
		t.Errorf("clusters %v", got)
	}
	if got := f.Users(); !slices.Equal(got, []string{"alice"}) {
		t.Errorf("users %v", got)
	}
	f, _ = parse(t, "--kubeconfig=missing")
	if got := f.Contexts(); len(got) != 0 {
		t.Errorf("contexts of a missing file: %v", got)
	}
}
