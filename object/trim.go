package object

// Trim lists the fields that nobody needs, so that they are never kept. A field is named by its JSON names
// joined by dots, such as "metadata.managedFields" or "status.images"; one entry of a map is named in
// brackets: "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]". A path goes through
// lists: "spec.containers.env" trims the environment of every container.
//
// metadata's name, namespace, uid, resourceVersion and deletionTimestamp cannot be trimmed: the stack needs them.
type Trim []string
