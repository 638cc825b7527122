package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"
)

// CheckFlags checks the flags as far as that is possible without a kubeconfig.
func (f *Flags) CheckFlags() error {
	if server := f.overrides.ClusterInfo.Server; server != "" {
		if err := checkServer(server); err != nil {
			return fmt.Errorf("--server %w", err)
		}
	}
	auth := f.overrides.AuthInfo
	if auth.Impersonate == "" && (auth.ImpersonateUID != "" || len(auth.ImpersonateGroups) > 0) {
		return errors.New("--as-group and --as-uid need --as")
	}
	return nil
}

// checkServer rejects what cannot be the address of an API server: a URL, or host:port.
func checkServer(server string) error {
	address := server
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err == nil && u.Port() != "" {
		_, err = strconv.ParseUint(u.Port(), 10, 16)
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q: want a URL such as https://10.0.0.1:6443, or host:port", server)
	}
	return nil
}

// Contexts returns the sorted names of the contexts in the kubeconfig, or none if it cannot be read.
func (f *Flags) Contexts() []string { return names(f.raw().Contexts) }

// Clusters is like Contexts.
func (f *Flags) Clusters() []string { return names(f.raw().Clusters) }

// Users is like Contexts.
func (f *Flags) Users() []string { return names(f.raw().AuthInfos) }

func (f *Flags) raw() api.Config {
	loader, _ := f.loader()
	raw, err := loader.RawConfig()
	if err != nil {
		return api.Config{}
	}
	return raw
}

func names[E any](entries map[string]E) []string { return slices.Sorted(maps.Keys(entries)) }
