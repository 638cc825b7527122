package serve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/protocol"
)

// TestAcceptHeadersOfClients: what clients send is understood, and what is better left to the API server is not.
func TestAcceptHeadersOfClients(t *testing.T) {
	const (
		partial = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		table   = ";as=Table;v=v1;g=meta.k8s.io"
		drop    = ";drop=metadata.managedFields"
		proto   = protocol.Protobuf
		forward = "forward"
	)
	for accept, want := range map[string]struct{ builtIn, custom string }{
		"":                                  {"", ""},
		"*/*":                               {"", ""},
		"application/json":                  {"", ""},
		"application/json;stream=watch":     {"", ""},
		"application/json, */*;q=0.8":       {"", ""},
		"application/json, text/plain, */*": {"", ""},
		proto + ",application/json":         {proto, ""},
		proto + ", */*":                     {proto, ""},
		proto:                               {proto, forward},
		proto + partial + ",application/json" + partial + ",application/json": {proto, proto},
		proto + drop + "," + proto + ",application/json" + drop:               {proto, ""},
		proto + partial + drop + ",application/json" + partial + drop:         {proto, proto},
		"application/json;drop=spec":                                          {forward, forward},
		"application/json" + table + ",application/json":                      {forward, forward},
		"application/yaml":                                 {forward, forward},
		"application/cbor, application/json":               {forward, forward},
		"*/*, " + proto:                                    {forward, forward},
		"application/json; q=0.1, " + proto:                {forward, forward},
		"application/json, " + proto + ";q=2":              {forward, forward},
		"Application/JSON":                                 {forward, forward},
		"application/json;as=PartialObjectMetadata;v=v1":   {forward, forward},
		"application/json;pretty=1":                        {forward, forward},
		"application/json;as=PartialObjectMetadata;as=x,,": {forward, forward},
	} {
		for builtIn, want := range map[bool]string{true: want.builtIn, false: want.custom} {
			resource := &protocol.ResourceType{
				GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespaced: true,
				BuiltIn: builtIn,
			}
			e, ok := negotiate(accept, resource, false)
			got := e.Media
			if !ok {
				got = forward
			}
			if got != want {
				t.Errorf("%q, built in: %v: %q, want %q", accept, builtIn, got, want)
			}
		}
	}
}

// TestAcceptsGzip compresses for those alone who say that they accept it.
func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "deflate, gzip": true, "br,gzip ,zstd": true,
		"": false, "identity": false, "gzip;q=0": false, "x-gzip": false,
	} {
		if got := acceptsGzip(header); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}
