package object

// Trim lists fields to drop from objects, so that they are never kept. A field is written as its JSON names
// joined by dots, such as "metadata.managedFields" or "status.images"; an entry of a map is written in
// brackets: "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]". A path continues into
// the elements of lists: "spec.containers.env" trims the environment of every container.
//
// The name, namespace, uid, resourceVersion and deletionTimestamp in metadata cannot be trimmed; the stack needs them.
type Trim []string
