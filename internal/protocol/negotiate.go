package protocol

import (
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Media types.
const (
	JSON     = "application/json"
	YAML     = "application/yaml"
	Protobuf = "application/vnd.kubernetes.protobuf"

	// MediaTypes lists those that a server reads and writes, for messages.
	MediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)

// Encoding is the form in which one client wants its response. The zero value is JSON. Encodings can be compared.
type Encoding struct {
	Media   string // "" is JSON
	Partial bool   // as PartialObjectMetadata
	As      string // the requested kind in place of the object's, such as PartialObjectMetadataList
	// Resource is what the objects are of; nil if they are not of a resource.
	Resource *ResourceType
}

// Negotiate picks the first media type of an Accept header that can be written. Custom resources
// cannot be written in protobuf, streams not in YAML, and nothing as a Table or in CBOR. r is nil
// for what is not of a resource. The Encoding is valid with an error, too: it is that of the error.
func Negotiate(accept string, r *ResourceType, stream bool) (Encoding, error) {
	e := Encoding{Resource: r}
	if accept == "" {
		return e, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		e.As = params["as"]
		e.Partial = strings.HasPrefix(e.As, "PartialObjectMetadata")
		if params["as"] != "" && (!e.Partial || params["g"] != metav1.GroupName || params["v"] != "v1") {
			continue
		}
		switch media {
		case JSON, "*/*", "application/*":
			e.Media = ""
			return e, nil
		case YAML:
			e.Media = YAML
			if !stream {
				return e, nil
			}
		case Protobuf:
			e.Media = Protobuf
			if r == nil || r.BuiltIn || e.Partial {
				return e, nil
			}
		}
	}
	return Encoding{Media: e.Media}, notAcceptable(r == nil || r.BuiltIn)
}

// ContentType returns the Content-Type header of a response.
func (e Encoding) ContentType(watch bool) string {
	switch {
	case e.Media == Protobuf && watch:
		return Protobuf + ";stream=watch"
	case e.Media != "":
		return e.Media
	default:
		return JSON
	}
}
