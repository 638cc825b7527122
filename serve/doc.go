// Package serve is a read replica of the Kubernetes API server: it answers gets, lists and watches
// of the resources that it is given from memory, with the API server's own resource versions, and
// forwards every other request with the caller's own identity.
package serve
