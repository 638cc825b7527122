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

// serveOptions is what the command line says.
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

// serve runs a control plane until ctx ends, which is a clean end and no error.
//
// The start goes from what fails fast to what takes time: lock the folder, parse
// the flags, make the keys, open the port, start etcd, start the API server,
// wait until it is ready, and only then publish the kubeconfig. The end goes
// backwards: etcd is closed after the API server's last request.
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
	// The API server closes it itself, if it comes that far.
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

// chooseEtcd returns where the API server finds etcd, and the member to start
// for it, which is nil when the user has a cluster.
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

// openPKI makes sure that the folder holds every key and certificate, and
// returns the authority. The serving certificate is made anew at every start;
// clients only know the authority.
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

// publish writes the kubeconfig and tells the user about it.
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

// controlPlane is one run of the API server, with or without an etcd of its own.
type controlPlane struct {
	apiserver options.CompletedOptions
	// kubeconfig has the admin's credentials, to ask whether the server is ready.
	kubeconfig []byte
	// publish is called once, when it is.
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

// watchEtcd ends the run when etcd stops by itself, as it does when the disk is
// full.
func watchEtcd(ctx context.Context, etcd *embed.Etcd, cancel context.CancelCauseFunc) {
	select {
	case err := <-etcd.Err():
		cancel(fmt.Errorf("etcd failed: %w", err))
	case <-etcd.Server.StopNotify():
		cancel(errors.New("etcd stopped by itself, see the log"))
	case <-ctx.Done():
	}
}

// serve runs the API server until ctx ends, and returns the reason if that is
// not the user's wish.
//
// A start is not interrupted: the server's own start-up work takes a cancelled
// context for a fatal error, and ends the process before etcd is closed.
func (c controlPlane) serve(ctx context.Context) error {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := runAPIServer(running, c.apiserver)
		if err == nil && running.Err() == nil {
			err = errors.New("the API server ended by itself, see the log")
		}
		// Nobody needs to wait for anything any more.
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

// untilEnd publishes the kubeconfig once the server is ready, and returns when
// ctx ends or the running server does. The error is nil if that is what the user
// wants.
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
