package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// maxNamespaceBytes limits how much of a namespace's metadata is read.
const maxNamespaceBytes = 1 << 20

// ClusterID returns a unique identifier of the server's cluster: the uid of the namespace
// kube-system. It requires permission to get that namespace. Without permission, if there is no
// such namespace, or if the server refuses the request for good in another way, ok is false;
// Address can be used instead.
func (c *Client) ClusterID(ctx context.Context) (id string, ok bool, err error) {
	response, err := c.get(ctx, *c.base.JoinPath("api", "v1", "namespaces", "kube-system"), url.Values{}, jsonType+partialAs+","+jsonType)
	switch {
	case refused(err):
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

// refused reports whether the server will give the same answer next time: not if the client is not
// logged in, too slow or too fast.
func refused(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code/100 == 4 || code == http.StatusNotImplemented
	}
}

// Address returns the server's address, with a hash of the certificate authority that its
// certificate is verified against, if one is configured. It needs no request. As a rule, each
// cluster has its own certificate authority.
func (c *Client) Address() string {
	if c.caHash == "" {
		return c.base.Redacted()
	}
	return c.base.Redacted() + " " + c.caHash
}

// caHash returns a hash of the configured certificate authority; "" if there is none, or if its file cannot be read, an
// error that the connection will report.
func caHash(config *rest.Config) string {
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
