package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	logsapi "k8s.io/component-base/logs/api/v1"
)

func run(t *testing.T, args ...string) error {
	t.Helper()
	// The logging configuration is global to the process and may only be set once.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&bytes.Buffer{})
	return cmd.ExecuteContext(t.Context())
}

func TestBadCommandLines(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"unknown flag: --prot":                  {"--data-dir", dir, "--prot", "1"},
		"no data folder: name one":              {},
		`unexpected argument "v=2"; kube-apise`: {"--data-dir", dir, "v=2"},
		"--port -1: ports are":                  {"--data-dir", dir, "--port", "-1"},
		port + " is in use by another program":  {"--data-dir", dir, "--port", port},
		"flags: unknown flag: --nope":           {"--data-dir", dir, "--", "--nope"},
		`flags: "nope" is not a flag`:           {"--data-dir", dir, "--", "nope"},
		"use --port":                            {"--data-dir", dir, "--", "--secure-port=6443"},
		"use --etcd-servers before the --":      {"--data-dir", dir, "--", "--etcd-servers=http://127.0.0.1:1"},
		`"Nope" is not a valid mode`:            {"--data-dir", dir, "--", "--authorization-mode=Nope"},
		"shorter name":                          {"--data-dir", dir + "/" + strings.Repeat("x", 100)},
		"exactly one user name":                 {"user", "--data-dir", dir},
		"name the one of the control plane":     {"user", "alice"},
	} {
		if err := run(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", args, err, want)
		}
	}
}

func TestAPIServerDefaults(t *testing.T) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	for name, test := range map[string]struct {
		args     []string
		disabled string
	}{
		"none":          {nil, "ServiceAccount"},
		"others stay":   {[]string{"--disable-admission-plugins=LimitRanger"}, "LimitRanger,ServiceAccount"},
		"asked for":     {[]string{"--enable-admission-plugins=ServiceAccount"}, ""},
		"already there": {[]string{"--disable-admission-plugins=ServiceAccount"}, "ServiceAccount"},
	} {
		opts, err := parseAPIServerOptions(layout(t.TempDir()), test.args)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if disabled := strings.Join(opts.Admission.GenericAdmission.DisablePlugins, ","); disabled != test.disabled {
			t.Errorf("%s: disabled %q, want %q", name, disabled, test.disabled)
		}
		if modes := strings.Join(opts.Authorization.Modes, ","); modes != "RBAC" {
			t.Errorf("%s: authorization by %s", name, modes)
		}
	}
}

func TestEndWithStdin(t *testing.T) {
	r, w := io.Pipe()
	ctx := endWith(t.Context(), r)
	if ctx.Err() != nil {
		t.Fatal("ended while the input is open")
	}
	_ = w.Close()
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error(ctx.Err())
	}
}

func TestFailedChecks(t *testing.T) {
	const verbose = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]rbac failed\nreadyz check failed\n"
	if got := failedChecks(verbose); got != "[-]etcd failed: reason withheld; [-]rbac failed" {
		t.Errorf("got %q", got)
	}
	if got := failedChecks("no such thing\n"); got != "no such thing" {
		t.Errorf("got %q", got)
	}
}
