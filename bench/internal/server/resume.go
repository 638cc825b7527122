package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// newestObject is a list with only that object of the initial list that was changed last. A client
// asks for it before it resumes a watch of an earlier run.
type newestObject struct {
	fields fields.Set
	list   []byte
}

// addNewest encodes the object that was changed last.
func (c *content) addNewest(objects []corpus.Object) error {
	var newest corpus.Object
	var last uint64
	for _, obj := range objects {
		version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
		if err != nil {
			return fmt.Errorf("the newest object: %w", err)
		}
		if version >= last {
			newest, last = obj, version
		}
	}
	list, err := c.kind.ListOf(newest)
	if err != nil {
		return fmt.Errorf("the newest object: %w", err)
	}
	list.(metav1.ListMetaAccessor).GetListMeta().SetResourceVersion(fmt.Sprint(firstVersion))
	c.newest.fields = fields.Set{"metadata.name": newest.GetName(), "metadata.namespace": newest.GetNamespace()}
	c.newest.list, err = c.encoding.encodeList(list)
	return err
}

func (e Encoding) encodeList(list runtime.Object) ([]byte, error) {
	if e == JSON {
		return json.Marshal(list)
	}
	var out bytes.Buffer
	err := protobuf.NewSerializer(nil, nil).Encode(list, &out)
	return out.Bytes(), err
}

// serveNewest answers a list of the one object that was changed last, and rejects all other lists.
func (s *Server) serveNewest(w http.ResponseWriter, r *http.Request) {
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil || selector.Empty() || !selector.Matches(s.content.newest.fields) {
		http.Error(w, "this server has no lists but of the newest object, only watches with initial events", http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", s.content.encoding.listType())
	_, _ = w.Write(s.content.newest.list) // a client that has gone needs no answer
}

// serveCluster serves the namespace kube-system, which identifies the cluster.
func serveCluster(w http.ResponseWriter, _ *http.Request) {
	reply(w, metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "6a1d6b3c-5b0e-4c7e-9d53-1f1f0e1c2b3a"},
	})
}
