// Command indexerinformer finds objects by their content: its informer indexes Services by the host that they point to.
package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/examples/internal/cluster"
)

func main() { cluster.Main(withTidings, withClientGo) }

// host returns the first label of the DNS name that a service points to.
func host(s *corev1.Service) string {
	name, _, _ := strings.Cut(s.Spec.ExternalName, ".")
	return name
}
