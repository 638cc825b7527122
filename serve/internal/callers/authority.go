package callers

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// The config map in which an API server publishes how it authenticates callers, and its keys.
const (
	authNamespace = "kube-system"
	authConfigMap = "extension-apiserver-authentication"
	clientCAKey   = "client-ca-file"
	proxyCAKey    = "requestheader-client-ca-file"
	proxyNamesKey = "requestheader-allowed-names"
	userKey       = "requestheader-username-headers"
	uidKey        = "requestheader-uid-headers"
	groupsKey     = "requestheader-group-headers"
	extraKey      = "requestheader-extra-headers-prefix"
)

// ClusterAuthentication returns the authority of the cluster's client certificates and the cluster's front proxy, from
// what the API server publishes; each is nil if there is none. Both are read again when that changes, until ctx of
// Server.Run ends.
func ClusterAuthentication(
	ctx context.Context, client kubernetes.Interface,
) (ca dynamiccertificates.CAContentProvider, proxy *FrontProxy, err error) {
	published, err := client.CoreV1().ConfigMaps(authNamespace).Get(ctx, authConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("a role binding to extension-apiserver-authentication-reader in %s is missing: %w",
			authNamespace, err)
	case apierrors.IsNotFound(err):
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("how the cluster authenticates callers: %w", err)
	}
	if text := published.Data[clientCAKey]; text != "" {
		if ca, err = newPublishedCA(client, clientCAKey, text); err != nil {
			return nil, nil, err
		}
	}
	if text := published.Data[proxyCAKey]; text != "" {
		if proxy, err = newFrontProxy(ctx, client, text); err != nil {
			return nil, nil, err
		}
	}
	return ca, proxy, nil
}

// publishedCA is an authority that the API server publishes. Upstream's controller knows none before it has synced, and
// until then callers would be refused.
type publishedCA struct {
	*dynamiccertificates.ConfigMapCAController
	first dynamiccertificates.CAContentProvider
}

func newPublishedCA(client kubernetes.Interface, key, text string) (*publishedCA, error) {
	first, err := dynamiccertificates.NewStaticCAContent(key, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s of config map %s/%s: %w", key, authNamespace, authConfigMap, err)
	}
	later, err := dynamiccertificates.NewDynamicCAFromConfigMapController(key, authNamespace, authConfigMap, key,
		client)
	return &publishedCA{later, first}, err
}

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (p *publishedCA) VerifyOptions() (x509.VerifyOptions, bool) {
	if options, ok := p.ConfigMapCAController.VerifyOptions(); ok {
		return options, true
	}
	return p.first.VerifyOptions()
}

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (p *publishedCA) CurrentCABundleContent() []byte {
	if content := p.ConfigMapCAController.CurrentCABundleContent(); content != nil {
		return content
	}
	return p.first.CurrentCABundleContent()
}

// FrontProxy is an authenticating proxy, whose headers say who the caller is. It proves itself with a client
// certificate.
type FrontProxy struct {
	ca      *publishedCA
	headers *headerrequest.RequestHeaderAuthRequestController
}

func newFrontProxy(ctx context.Context, client kubernetes.Interface, authority string) (*FrontProxy, error) {
	ca, err := newPublishedCA(client, proxyCAKey, authority)
	if err != nil {
		return nil, err
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(
		authConfigMap, authNamespace, client, userKey, uidKey, groupsKey, extraKey, proxyNamesKey)
	if err := headers.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("headers of the front proxy, config map %s/%s: %w", authNamespace, authConfigMap, err)
	}
	return &FrontProxy{ca, headers}, nil
}

// VerifyOptions returns what the proxy's certificate is verified against.
func (p *FrontProxy) VerifyOptions() (x509.VerifyOptions, bool) { return p.ca.VerifyOptions() }

// authenticator returns an authenticator of the callers of the proxy. It removes the headers from what it
// authenticates.
func (p *FrontProxy) authenticator() authenticator.Request {
	provide := func(f func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(f)
	}
	return headerrequest.NewDynamicVerifyOptionsSecure(p.VerifyOptions,
		x509request.StringSliceProviderFunc(p.headers.AllowedClientNames),
		provide(p.headers.UsernameHeaders), provide(p.headers.UIDHeaders), provide(p.headers.GroupHeaders),
		provide(p.headers.ExtraHeaderPrefixes))
}

// Run keeps the proxy current until ctx ends.
func (p *FrontProxy) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { p.ca.Run(ctx, 1) })
	running.Go(func() { p.headers.Run(ctx, 1) })
	running.Wait()
}

// IsIdentity reports whether a header says who a caller is. An API server believes such headers only from its front
// proxy, and the replica is none; but should its own certificate be that of one, what its clients send must not count.
func (p *FrontProxy) IsIdentity(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "x-remote-") {
		return true
	}
	if p == nil {
		return false
	}
	is := func(other string) bool { return strings.ToLower(other) == name }
	begins := func(prefix string) bool { return strings.HasPrefix(name, strings.ToLower(prefix)) }
	names := slices.Concat(p.headers.UsernameHeaders(), p.headers.UIDHeaders(), p.headers.GroupHeaders())
	return slices.ContainsFunc(names, is) || slices.ContainsFunc(p.headers.ExtraHeaderPrefixes(), begins)
}
