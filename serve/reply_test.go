package serve

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/protocol"
)

// replyOf returns an answer in a form in which equal contents are equal: objects as JSON with sorted members, without
// the versions and the ages that differ because the servers were asked one after the other.
func replyOf(response *http.Response, body []byte, query url.Values) (*reply, error) {
	r := &reply{code: response.StatusCode, header: http.Header{}}
	for _, name := range meaningful {
		if values := response.Header[name]; values != nil {
			r.header[name] = values
		}
	}
	if response.Header.Get("Content-Encoding") == "gzip" && !response.Uncompressed && len(body) > 0 {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	kind := response.Header.Get("Content-Type")
	isWatch := response.StatusCode == http.StatusOK && isTrue(query.Get("watch"), query.Has("watch"))
	switch {
	case strings.HasPrefix(kind, protocol.Protobuf) && isWatch:
		r.body = r.protobufEvents(body)
	case strings.HasPrefix(kind, protocol.Protobuf):
		r.body = r.canonical(fromProtobuf(body))
	case strings.HasPrefix(kind, protocol.JSON) && isWatch:
		for decoder := json.NewDecoder(bytes.NewReader(body)); ; {
			var event any
			if err := decoder.Decode(&event); err != nil {
				break
			}
			r.body += r.event(event)
		}
	case strings.HasPrefix(kind, protocol.JSON):
		var content any
		if err := json.Unmarshal(body, &content); err != nil {
			return nil, fmt.Errorf("%w: %.300q", err, body)
		}
		r.body = r.canonical(content)
	default:
		r.body = versionsInText.ReplaceAllString(string(body), "${1}1")
	}
	return r, nil
}

func isTrue(text string, given bool) bool { return given && text != "false" && text != "0" }

// versionsInText are versions that differ in YAML and in messages.
var versionsInText = regexp.MustCompile(`(resourceVersion: "|current: |too old resource version: \d+ \()\d+`)

// ageInTable is how tables show the time since an object was created.
var ageInTable = regexp.MustCompile(`^([0-9]+[smhdy])+$`)

// fromProtobuf returns an object as JSON would have it.
func fromProtobuf(body []byte) any {
	o, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, nil)
	if err != nil {
		return err.Error()
	}
	return toJSON(o)
}

func toJSON(o runtime.Object) (content any) {
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	if err != nil {
		return err.Error()
	}
	return content
}

func (r *reply) protobufEvents(body []byte) (text string) {
	for len(body) >= 4 {
		size := binary.BigEndian.Uint32(body)
		if uint64(size) > uint64(len(body)-4) {
			return text + "a frame is too short"
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(body[4:][:size]); err != nil {
			return text + err.Error()
		}
		text += r.event(map[string]any{"type": event.Type, "object": fromProtobuf(event.Object.Raw)})
		body = body[4+size:]
	}
	return text
}

// event returns a watch event as text. Bookmarks come by each server's own time, except for those at the end of the
// initial events.
func (r *reply) event(event any) string {
	members, _ := event.(map[string]any)
	if members["type"] == "BOOKMARK" {
		data, _ := json.Marshal(event) // of what was decoded
		if !bytes.Contains(data, []byte(metav1.InitialEventsAnnotationKey)) {
			return ""
		}
		return "initial events end\n"
	}
	if o, ok := members["object"].(map[string]any); ok && isList(o) { // a table of one row
		r.clean(o)
	}
	return r.canonical(event) + "\n"
}

// canonical returns decoded JSON as text.
func (r *reply) canonical(content any) string {
	if list, ok := content.(map[string]any); ok {
		if metadata, ok := list["metadata"].(map[string]any); ok && list["kind"] == "SelfSubjectReview" {
			delete(metadata, "creationTimestamp") // it is made for each request
		}
		if isList(list) {
			r.clean(list)
		}
	}
	data, _ := json.Marshal(content) // of what was decoded
	return versionsInText.ReplaceAllString(string(data), "${1}1")
}

// isList reports whether decoded JSON is a list, whose items may be null, or a table.
func isList(content map[string]any) bool {
	_, items := content["items"]
	_, rows := content["rows"]
	return items || rows
}

// clean makes the version of a list one that both servers give. The version in a token, too, is each server's own
// unless the list is of a version that was asked for, and then the objects show that it is the right one.
func (r *reply) clean(list map[string]any) {
	metadata, _ := list["metadata"].(map[string]any)
	if metadata == nil {
		return
	}
	if metadata["resourceVersion"] != nil {
		metadata["resourceVersion"] = "1"
	}
	text, _ := metadata["continue"].(string)
	if token, err := protocol.ParseToken(text); err == nil {
		r.token = text
		metadata["continue"] = "from " + token.Start
	}
	rows, _ := list["rows"].([]any)
	for _, row := range rows {
		cells, _ := row.(map[string]any)["cells"].([]any)
		for i, cell := range cells {
			if text, ok := cell.(string); ok && ageInTable.MatchString(text) {
				cells[i] = "age"
			}
		}
	}
}
