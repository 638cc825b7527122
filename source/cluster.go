package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// maxNamespaceBytes is the most that is read of a namespace's metadata.
const maxNamespaceBytes = 1 << 20

// ClusterID returns what tells the server's cluster from all others: the uid of its namespace kube-system, for which
// reading that one namespace must be granted. Where it is not granted, or there is no such namespace, ok is false; see
// Address.
func (c *Client) ClusterID(ctx context.Context) (id string, ok bool, err error) {
	response, err := c.get(ctx, *c.base.JoinPath("api", "v1", "namespaces", "kube-system"), url.Values{}, jsonType+partialAs+","+jsonType)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("namespace kube-system, which tells clusters apart: %w", err)
	}
	defer response.Body.Close()
	var namespace metav1.PartialObjectMetadata
	body, err := io.ReadAll(io.LimitReader(response.Body, maxNamespaceBytes))
	if err == nil {
		err = json.Unmarshal(body, &namespace)
	}
	if err != nil {
		return "", false, fmt.Errorf("namespace kube-system, which tells clusters apart: %w", withCause(ctx, err))
	}
	return string(namespace.UID), namespace.UID != "", nil
}

// Address returns the server's address with a hash of the certificate authority that it is trusted by. It can be had
// without any request. Clusters have authorities of their own, as a rule.
func (c *Client) Address() string {
	if c.authority == "" {
		return c.base.Redacted()
	}
	return c.base.Redacted() + " " + c.authority
}

// authorityOf returns a hash of the certificate authority that a configuration names; "" if it names none, or a file that
// cannot be read, which the connection finds out.
func authorityOf(config *rest.Config) string {
	data := config.CAData
	if len(data) == 0 && config.CAFile != "" {
		data, _ = os.ReadFile(config.CAFile)
	}
	if len(data) == 0 {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
