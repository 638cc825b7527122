// Command indexerinformer finds objects by what they hold: its informer has an index of the Services by the host that they lead to.
package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/examples/internal/cluster"
)

func main() { cluster.Main(withTidings, withClientGo) }

// host is the first part of the name that a service leads to.
func host(s *corev1.Service) string {
	name, _, _ := strings.Cut(s.Spec.ExternalName, ".")
	return name
}
