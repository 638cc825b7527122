package serve

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// ClusterCA returns the authority of the cluster's client certificates, from the config map that
// the API server publishes it in: extension-apiserver-authentication in kube-system. It is read
// again when it changes, until ctx of Server.Run ends.
func ClusterCA(ctx context.Context, client kubernetes.Interface) (dynamiccertificates.CAContentProvider, error) {
	const namespace, name, key = "kube-system", "extension-apiserver-authentication", "client-ca-file"
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", namespace, name, key, client)
	if err == nil {
		err = ca.RunOnce(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("authority of client certificates, config map %s/%s (role extension-apiserver-authentication-reader): %w", namespace, name, err)
	}
	return ca, nil
}
