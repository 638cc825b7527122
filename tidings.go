package tidings

import (
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// Object is what informers carry: a pointer to an API type. See object.Object.
type Object = object.Object

// Key names one object: its namespace and name.
type Key = object.Key

// Delta is one change to one object, as a DeltaFunc gets it.
type Delta[T Object] = object.Delta[T]

// Trim lists fields to drop from objects; see object.Trim for the notation.
type Trim = object.Trim

// Shard is a part of a collection, for Scope.Shard.
type Shard = source.Shard

// The fields that a collection can be sharded by.
const (
	ShardByUID       = source.ShardByUID
	ShardByNamespace = source.ShardByNamespace
)

// Fields that are often worth trimming.
const (
	// ManagedFields records which manager set which field: often a third of an object, and of no
	// use to most controllers.
	ManagedFields = "metadata.managedFields"
	// LastApplied is the annotation in which "kubectl apply" keeps a copy of the object.
	LastApplied = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"
)

// All is the empty namespace. Passed as a namespace, it means all of them, or the objects of a cluster-scoped resource.
const All = ""
