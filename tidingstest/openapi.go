package tidingstest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/tidingstest/internal/openapi"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serveOpenAPI serves /openapi/v3, the list of documents, and each document. There is no v2.
func (s *Server) serveOpenAPI(w http.ResponseWriter, r *http.Request, path string) error {
	rest, ok := strings.CutPrefix(path, "v3")
	if !ok {
		http.NotFound(w, r)
		return nil
	}
	if rest == "" {
		return s.serveOpenAPIPaths(w)
	}
	var gv schema.GroupVersion
	switch parts := strings.Split(strings.Trim(rest, "/"), "/"); {
	case len(parts) == 2 && parts[0] == "api":
		gv = schema.GroupVersion{Version: parts[1]}
	case len(parts) == 3 && parts[0] == "apis":
		gv = schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	resources := s.served()[gv.Group][gv.Version]
	if len(resources) == 0 {
		http.NotFound(w, r)
		return nil
	}
	return writeJSON(w, openapi.Document(gv, resources, "Tidings test server", serverVersion.GitVersion))
}

// serveOpenAPIPaths lists the documents. Their URLs change with their resources, because clients cache by URL.
func (s *Server) serveOpenAPIPaths(w http.ResponseWriter) error {
	paths := map[string]any{}
	for group, versions := range s.served() {
		for version, resources := range versions {
			path := "apis/" + group + "/" + version
			if group == "" {
				path = "api/" + version
			}
			hash := fnv.New64a()
			for _, resource := range resources {
				fmt.Fprintln(hash, resource.Resource, resource.Kind, len(resource.Schema))
			}
			paths[path] = map[string]any{"serverRelativeURL": fmt.Sprintf("/openapi/v3/%s?hash=%X", path, hash.Sum64())}
		}
	}
	return writeJSON(w, map[string]any{"paths": paths})
}

func writeJSON(w http.ResponseWriter, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", protocol.JSON)
	}
	_, err = w.Write(data)
	return err
}
