package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// serveOptions are the options of the command line.
type serveOptions struct {
	dataDir       string
	kubeconfig    string
	port          int
	etcdServers   []string
	featureGates  string
	unsafeNoFsync bool
	apiserverArgs []string
	// out receives one line when the server is ready.
	out io.Writer
}

// serve runs a control plane until ctx ends, and returns nil in that case.
//
// It starts with what fails fast and ends with what takes time: lock the folder, parse the flags, create the
// keys, open the port, start etcd, start the API server, wait until it is ready, and only then publish the
// kubeconfig. It stops in reverse order: etcd is closed after the API server's last request.
func serve(ctx context.Context, opts serveOptions) error {
	l, release, err := openLayout(opts.dataDir)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()

	args := opts.apiserverArgs
	if opts.featureGates != "" {
		args = append([]string{"--feature-gates=" + opts.featureGates}, args...)
	}
	apiserver, err := parseAPIServerOptions(l, args)
	if err != nil {
		return err
	}
	ca, err := openPKI(l)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, opts.port)
	if err != nil {
		return err
	}
	// The API server closes it itself, if it gets that far.
	defer func() { _ = listener.Close() }()
	kubeconfig, err := newKubeconfig(ca, "https://"+listener.Addr().String(), adminUser, []string{adminGroup})
	if err != nil {
		return err
	}
	run := controlPlane{kubeconfig: kubeconfig, publish: func() error {
		return publish(opts, l, kubeconfig, listener.Addr())
	}}

	etcd, etcdServers, err := chooseEtcd(l, opts)
	if err != nil {
		return err
	}
	if run.apiserver, err = completeAPIServerOptions(ctx, apiserver, listener, etcdServers); err != nil {
		return err
	}
	if etcd != nil {
		return run.serveWithEtcd(ctx, etcd)
	}
	if err := run.serve(ctx); err != nil {
		return fmt.Errorf("with the etcd servers %s: %w; check that --etcd-servers can be reached", strings.Join(etcdServers, ","), err)
	}
	return nil
}

// chooseEtcd returns the addresses of etcd for the API server, and the member to start, which is nil if the
// user supplies a cluster.
func chooseEtcd(l layout, opts serveOptions) (member *embed.Config, servers []string, err error) {
	if len(opts.etcdServers) > 0 {
		return nil, opts.etcdServers, nil
	}
	member, err = etcdConfig(l, opts.unsafeNoFsync)
	if err != nil {
		return nil, nil, err
	}
	return member, []string{member.ListenClientUrls[0].String()}, nil
}

// openPKI makes sure that the folder has every key and certificate, and returns the authority. The serving
// certificate is new on every start; clients only know the authority.
func openPKI(l layout) (*authority, error) {
	if _, err := openKey(l.serviceAccountKey()); err != nil {
		return nil, err
	}
	ca, err := openAuthority(l)
	if err != nil {
		return nil, err
	}
	key, err := openKey(l.servingKey())
	if err != nil {
		return nil, err
	}
	cert, err := ca.serving(key, serviceAddress())
	if err != nil {
		return nil, err
	}
	return ca, writeFile(l.servingCert(), cert)
}

// publish writes the kubeconfig and prints its path.
func publish(opts serveOptions, l layout, kubeconfig []byte, address net.Addr) error {
	if err := writeFile(l.adminKubeconfig(), kubeconfig); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	path := l.adminKubeconfig()
	if opts.kubeconfig != "" {
		path = opts.kubeconfig
		if err := writeFile(path, kubeconfig); err != nil {
			return fmt.Errorf("kubeconfig: %w; choose a file in a folder you may write to with --kubeconfig", err)
		}
	}
	_, err := fmt.Fprintf(opts.out, "The control plane is ready on https://%s; use it with KUBECONFIG=%s\n", address, path)
	return err
}

// controlPlane is one run of the API server, with or without an embedded etcd.
type controlPlane struct {
	apiserver options.CompletedOptions
	// kubeconfig has the admin's credentials, for the readiness check.
	kubeconfig []byte
	// publish is called once, when the server is ready.
	publish func() error
}

// serveWithEtcd starts etcd in this process, serves, and closes etcd.
func (c controlPlane) serveWithEtcd(ctx context.Context, config *embed.Config) error {
	etcd, err := startEtcd(ctx, config)
	if err != nil {
		return err
	}
	defer etcd.Close()

	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchEtcd(ctx, etcd, cancel)
	}()
	err = c.serve(ctx)
	cancel(nil)
	<-watched
	return err
}

// watchEtcd ends the run when etcd stops on its own, as it does when the disk is full.
func watchEtcd(ctx context.Context, etcd *embed.Etcd, cancel context.CancelCauseFunc) {
	select {
	case err := <-etcd.Err():
		cancel(fmt.Errorf("etcd failed: %w", err))
	case <-etcd.Server.StopNotify():
		cancel(errors.New("etcd stopped by itself, see the log"))
	case <-ctx.Done():
	}
}

// serve runs the API server until ctx ends, and returns the reason if it ends for another reason.
//
// A start is not interrupted: the server's start-up hooks treat a cancelled context as a fatal error, and
// exit the process before etcd is closed.
func (c controlPlane) serve(ctx context.Context) error {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := runAPIServer(running, c.apiserver)
		if err == nil && running.Err() == nil {
			err = errors.New("the API server ended by itself, see the log")
		}
		// Stop waiting for the server to become ready.
		stop(err)
		ended <- err
	}()
	err := c.untilEnd(ctx, running)
	stop(err)
	if endErr := <-ended; err == nil {
		err = endErr
	}
	return err
}

// untilEnd publishes the kubeconfig once the server is ready, and returns when ctx or running ends. It
// returns nil if ctx ended.
func (c controlPlane) untilEnd(ctx, running context.Context) error {
	err := waitReady(running, c.kubeconfig)
	if err == nil && ctx.Err() == nil {
		err = c.publish()
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
	}
	switch {
	case running.Err() != nil:
		return context.Cause(running)
	case err != nil:
		return err
	case errors.Is(context.Cause(ctx), context.Canceled):
		return nil
	default:
		return context.Cause(ctx)
	}
}
