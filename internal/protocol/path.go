package protocol

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Target is what the path of a URL names.
type Target struct {
	Resource    schema.GroupVersionResource
	Namespace   string
	Name        string // empty for collections
	Subresource string // such as "status"
}

// ParsePath parses /api/v1/… and /apis/group/version/… paths. It returns false for others, which
// are not for a resource.
func ParsePath(path string) (t Target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.Resource.Version = parts[1]
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.Resource.Group, t.Resource.Version = parts[1], parts[2]
		parts = parts[3:]
	default:
		return t, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" && !namespaceSubresource(parts[2]) {
		t.Namespace = parts[1]
		parts = parts[2:]
	}
	t.Resource.Resource = parts[0]
	if len(parts) > 1 {
		t.Name = parts[1]
	}
	if len(parts) > 2 {
		t.Subresource = strings.Join(parts[2:], "/")
	}
	return t, true
}

func namespaceSubresource(name string) bool { return name == "status" || name == "finalize" }
