package tidings

import "github.com/tidings/tidings/object"

// Object is what informers carry: a pointer to an API type. See object.Object.
type Object = object.Object

// Key names one object: its namespace and name.
type Key = object.Key

// Delta is one change to one object, as a DeltaFunc gets it.
type Delta[T Object] = object.Delta[T]

// Trim lists the fields that nobody needs; see object.Trim for how a field is named.
type Trim = object.Trim

// Fields that are often worth trimming.
const (
	// ManagedFields is who set which field: often a third of an object, and of no use to most controllers.
	ManagedFields = "metadata.managedFields"
	// LastApplied is the copy of the object that "kubectl apply" keeps in it.
	LastApplied = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"
)

// All is the empty namespace. Wherever a namespace is asked for it means all of them, and with them the objects of a
// cluster-scoped resource.
const All = ""
