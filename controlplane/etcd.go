package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// maxSocketPath is the longest name of a unix socket that every system accepts; the kernel's field has
	// 104 bytes on some, including the terminating zero.
	maxSocketPath = 103
	// etcdStartTimeout limits the wait for a single member to elect itself, which takes a second or so, or to
	// replay a long log.
	etcdStartTimeout = time.Minute
	// etcdQuota is well above etcd's default of 2 GiB, which a large benchmark can fill between two
	// compactions.
	etcdQuota = 8 << 30
)

// etcdConfig configures a single etcd member that listens on a unix socket in the data folder. Such a socket
// needs no port, and file permissions protect it: etcd itself has no authentication here.
func etcdConfig(l layout, unsafeNoFsync bool) (*embed.Config, error) {
	if len(l.etcdSocket()) > maxSocketPath {
		return nil, fmt.Errorf("the name of etcd's socket %s is %d bytes long, %d are allowed: choose a --data-dir with a shorter name",
			l.etcdSocket(), len(l.etcdSocket()), maxSocketPath)
	}
	client := url.URL{Scheme: "unix", Path: l.etcdSocket()}
	// A member has to advertise its address to other members, as host and port. There are none.
	nobody := []url.URL{{Scheme: "unix", Host: "no-other-members:0"}}

	config := embed.NewConfig()
	config.Name = "controlplane"
	config.Dir = l.etcd()
	config.ListenClientUrls = []url.URL{client}
	config.AdvertiseClientUrls = nobody
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = nobody
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// A single member elects itself as soon as the first timeout is over; with etcd's default that takes a
	// second of every start.
	config.TickMs, config.ElectionMs = 10, 100
	config.QuotaBackendBytes = etcdQuota
	config.UnsafeNoFsync = unsafeNoFsync
	config.LogLevel = "warn"
	// The gateway translates HTTP into gRPC for clients without gRPC.
	config.EnableGRPCGateway = false
	return config, nil
}

// startEtcd returns a member that answers requests. Close stops it and waits.
func startEtcd(ctx context.Context, config *embed.Config) (*embed.Etcd, error) {
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("etcd on %s: %w", config.Dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("it stopped while starting, see the log")
	case <-time.After(etcdStartTimeout):
		err = fmt.Errorf("not ready after %v, see the log", etcdStartTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	etcd.Close()
	return nil, fmt.Errorf("etcd on %s: %w", config.Dir, err)
}
