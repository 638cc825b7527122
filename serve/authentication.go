package serve

import (
	"context"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/serve/internal/callers"
)

// FrontProxy is an authenticating proxy, whose headers say who the caller is. It proves itself with a client
// certificate.
type FrontProxy = callers.FrontProxy

// ClusterAuthentication returns the authority of the cluster's client certificates and the cluster's front proxy, from
// what the API server publishes; each is nil if there is none. Both are read again when that changes, until ctx of
// Server.Run ends.
func ClusterAuthentication(
	ctx context.Context, client kubernetes.Interface,
) (ca dynamiccertificates.CAContentProvider, proxy *FrontProxy, err error) {
	return callers.ClusterAuthentication(ctx, client)
}
