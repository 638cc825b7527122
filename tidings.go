package tidings

import (
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// Object is what informers carry: a pointer to an API type. See object.Object.
type Object = object.Object

// Key names one object: its namespace and name.
type Key = object.Key

// Delta is one change to one object, as HandleDeltas delivers it.
type Delta[T Object] = object.Delta[T]

// Snapshot is an immutable picture of a collection with all its indexes at one resource version.
type Snapshot[T Object] = store.Snapshot[T]

// Match is one condition of an intersection: the objects that an index has under a value.
type Match[T Object] = store.Match[T]

// Trim lists the fields that nobody needs; see object.Trim for how a field is named.
type Trim = object.Trim

// Fields that are often worth trimming.
const (
	// ManagedFields is who set which field: often a third of an object, and of no use to most controllers.
	ManagedFields = "metadata.managedFields"
	// LastApplied is the copy of the object that "kubectl apply" keeps in it.
	LastApplied = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"
)

// All is the empty namespace: every namespace, or a cluster-scoped resource.
const All = ""
