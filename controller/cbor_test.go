package controller_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// selfDescribed begins each message in CBOR.
const selfDescribed = "\xd9\xd9\xf7"

// speaksCBOR is a transport to a server without CBOR, which translates for clients that use it.
type speaksCBOR struct {
	next     http.RoundTripper
	answered *atomic.Int64 // the number of answers in CBOR
}

func (t speaksCBOR) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	switch r.Header.Get("Content-Type") {
	case runtime.ContentTypeCBOR:
		toJSON(r, runtime.ContentTypeJSON)
	case string(types.ApplyCBORPatchType):
		toJSON(r, string(types.ApplyYAMLPatchType))
	}
	wanted := strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeCBOR)
	if wanted {
		r.Header.Set("Accept", runtime.ContentTypeJSON)
	}
	response, err := t.next.RoundTrip(r)
	if err != nil || !wanted {
		return response, err
	}
	defer response.Body.Close()
	t.answered.Add(1)
	var content any
	must(0, utiljson.Unmarshal(must(io.ReadAll(response.Body)), &content))
	data := append([]byte(selfDescribed), must(cbor.Marshal(content))...)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	response.Header.Set("Content-Type", runtime.ContentTypeCBOR)
	return response, nil
}

// toJSON translates the body of a request.
func toJSON(r *http.Request, media string) {
	var content any
	must(0, cbor.Unmarshal(must(io.ReadAll(r.Body)), &content))
	data := must(json.Marshal(content))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Set("Content-Type", media)
}
