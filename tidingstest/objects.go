package tidingstest

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/fields"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Create adds an object and returns its resource version. The server keeps a copy, and sets a
// missing uid and creation time; it does not validate, default or clear anything else, and
// admission is skipped. The object may be of a built-in type, unstructured, or the Go type of a
// custom resource with apiVersion and kind set. The test fails if the key already exists.
func (s *Server) Create(o object.Object) string {
	s.t.Helper()
	return s.write(o, s.registry.Insert)
}

// Update replaces an object and returns the new resource version. The uid and creation time are
// kept. The resource version in o is ignored, and the status is replaced too. The test fails if the
// object does not exist.
func (s *Server) Update(o object.Object) string {
	s.t.Helper()
	return s.write(o, s.registry.Put)
}

// Delete removes the object with o's kind and key at once, regardless of finalizers, and returns
// the resource version of the deletion. The test fails if the object does not exist.
func (s *Server) Delete(o object.Object) string {
	s.t.Helper()
	return s.write(o, func(request rest.Request, _ object.Object) (object.Object, error) { return s.registry.Drop(request) })
}

// Load creates all the objects.
func (s *Server) Load(objects ...object.Object) {
	s.t.Helper()
	for _, o := range objects {
		s.Create(o)
	}
}

func (s *Server) write(o object.Object, do func(rest.Request, object.Object) (object.Object, error)) string {
	s.t.Helper()
	stored, kind, err := s.toStored(o)
	if err != nil {
		s.t.Errorf("tidingstest: %v", err)
		return ""
	}
	resource := s.catalog.OfKind(kind)
	if resource == nil {
		s.t.Errorf("tidingstest: the server knows no resource of kind %v; declare it with AddResource", kind)
		return ""
	}
	if !resource.BuiltIn {
		stored.GetObjectKind().SetGroupVersionKind(resource.StorageKind())
	}
	stored, err = do(rest.Request{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}, stored)
	if err != nil {
		s.t.Errorf("tidingstest: %v", err)
		return ""
	}
	return stored.GetResourceVersion()
}

// toStored copies o into the form that the server stores: the Go type for built-in kinds, unstructured for others.
func (s *Server) toStored(o object.Object) (object.Object, schema.GroupVersionKind, error) {
	_, isUnstructured := o.(*unstructured.Unstructured)
	if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil && !isUnstructured {
		stored := storage.Copy(o)
		stored.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return stored, kinds[0], nil
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Empty() && s.options.Scheme != nil {
		if kinds, _, err := s.options.Scheme.ObjectKinds(o); err == nil {
			kind = kinds[0]
		}
	}
	if kind.Empty() {
		return nil, kind, fmt.Errorf("%T %s: set apiVersion and kind, so that the server knows what it is", o, object.KeyOf(o))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.DeepCopyObject())
	if err != nil {
		return nil, kind, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	if !scheme.Scheme.Recognizes(kind) {
		return u, kind, nil
	}
	typed, err := fields.Typed(u, kind)
	if err != nil {
		return nil, kind, err
	}
	typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return typed.(object.Object), kind, nil
}

// Versions returns the resource version of every object of a resource: what a cache must converge to.
func (s *Server) Versions(resource schema.GroupVersionResource) map[object.Key]string {
	versions := map[object.Key]string{}
	for _, o := range s.Objects(resource) {
		versions[object.KeyOf(o)] = o.GetResourceVersion()
	}
	return versions
}

// Objects returns the objects of a resource, in list order. They must not be changed.
func (s *Server) Objects(resource schema.GroupVersionResource) []object.Object {
	r := s.catalog.Get(resource)
	if r == nil {
		return nil
	}
	list, err := s.store.Collection(r.Storage).List(s.store.Version())
	if err != nil {
		return nil
	}
	return slices.AppendSeq(make([]object.Object, 0, list.Count("", "")), list.From("", ""))
}

// ResourceVersion returns the version of the latest change to any resource.
func (s *Server) ResourceVersion() string {
	return strconv.FormatUint(s.store.Version(), 10)
}

// Compact drops the history up to now: a list or watch from an older version gets 410 Gone, and so
// does a continue token. What running watches have not sent yet is kept until the next Compact.
func (s *Server) Compact() { s.store.Compact() }

// SendBookmarks makes every running watch of a resource send a bookmark now.
func (s *Server) SendBookmarks(resource schema.GroupVersionResource) {
	if r := s.catalog.Get(resource); r != nil {
		s.store.Collection(r.Storage).RequestBookmarks()
	}
}

// Snapshot is the state of a server at one time.
type Snapshot struct{ backup *storage.Backup }

// Snapshot returns the current state: all objects and the resource version, but not the history.
func (s *Server) Snapshot() Snapshot { return Snapshot{s.store.Backup()} }

// Restore returns the server to an earlier state, like restoring etcd from a backup: resource
// versions assigned since then will be assigned again, to other changes. Running watches end.
func (s *Server) Restore(snapshot Snapshot) { s.store.Restore(snapshot.backup) }
