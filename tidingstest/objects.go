package tidingstest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidings/tidings/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Create adds an object and returns its resource version. The server keeps a copy, with a uid and a creation
// time where they are missing. The object may be of a built-in type, unstructured, or the Go type of a custom
// resource with apiVersion and kind set. A second object under one key fails the test.
func (s *Server) Create(o object.Object) string {
	s.t.Helper()
	return s.write(o, func(stored, old object.Object) (object.Object, error) {
		if old != nil {
			return nil, fmt.Errorf("%s exists already", object.KeyOf(o))
		}
		if stored.GetUID() == "" {
			s.store.uids++
			stored.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.store.uids)))
		}
		if created := stored.GetCreationTimestamp(); created.IsZero() {
			stored.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
		}
		return stored, nil
	})
}

// Update replaces an object and returns the new resource version. The uid and creation time stay. The resource
// version in o is not compared. An object that does not exist fails the test.
func (s *Server) Update(o object.Object) string {
	s.t.Helper()
	return s.write(o, func(stored, old object.Object) (object.Object, error) {
		if old == nil {
			return nil, fmt.Errorf("%s does not exist", object.KeyOf(o))
		}
		stored.SetUID(old.GetUID())
		stored.SetCreationTimestamp(old.GetCreationTimestamp())
		return stored, nil
	})
}

// Delete removes the object with o's kind and key and returns the resource version of the deletion. An object
// that does not exist fails the test.
func (s *Server) Delete(o object.Object) string {
	s.t.Helper()
	return s.write(o, func(_, old object.Object) (object.Object, error) {
		if old == nil {
			return nil, fmt.Errorf("%s does not exist", object.KeyOf(o))
		}
		return nil, nil
	})
}

func (s *Server) write(o object.Object, edit func(stored, old object.Object) (object.Object, error)) string {
	s.t.Helper()
	stored, kind, err := toStored(o)
	if err != nil {
		s.t.Errorf("tidingstest: %v", err)
		return ""
	}
	version, err := s.store.write(kind, object.KeyOf(o), func(old object.Object) (object.Object, error) { return edit(stored, old) })
	if err != nil {
		s.t.Errorf("tidingstest: %v", err)
		return ""
	}
	return strconv.FormatUint(version, 10)
}

// toStored copies o into the form that the server keeps: the Go type for built-in kinds, unstructured for others.
func toStored(o object.Object) (object.Object, schema.GroupVersionKind, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if _, is := o.(*unstructured.Unstructured); err == nil && !is {
		return copyOf(o), kinds[0], nil
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		return nil, kind, fmt.Errorf("%T %s: set apiVersion and kind, so that the server knows what it is", o, object.KeyOf(o))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copyOf(o))
	if err != nil {
		return nil, kind, err
	}
	if !scheme.Scheme.Recognizes(kind) {
		return &unstructured.Unstructured{Object: content}, kind, nil
	}
	typed, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, kind, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, kind, err
	}
	typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return typed.(object.Object), kind, nil
}

// Versions returns the resource version of every object of a resource: the truth that a cache must come to equal.
func (s *Server) Versions(resource schema.GroupVersionResource) map[object.Key]string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	versions := map[object.Key]string{}
	if c := s.store.resources[resource]; c != nil {
		for key, o := range c.objects {
			versions[key] = o.GetResourceVersion()
		}
	}
	return versions
}

// ResourceVersion returns the version of the newest change to any resource.
func (s *Server) ResourceVersion() string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return strconv.FormatUint(s.store.version, 10)
}

// Compact forgets the history up to now: a list or watch from an older version gets 410 Gone, and so does a
// continue token. What running watches have not been sent yet stays until the next Compact.
func (s *Server) Compact() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, c := range s.store.resources {
		c.history = slices.Clone(c.since(c.compacted))
		c.dropped, c.compacted = c.compacted, s.store.version
	}
}

// SendBookmarks makes every running watch of a resource send a bookmark now.
func (s *Server) SendBookmarks(resource schema.GroupVersionResource) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if c := s.store.resources[resource]; c != nil {
		c.bookmarks++
		s.store.wake()
	}
}
