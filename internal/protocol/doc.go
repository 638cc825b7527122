// Package protocol is the reading half of the Kubernetes API: the options of a query, content
// negotiation, continue tokens, the encoding of objects, lists and watch events, and the texts of
// errors. What is read comes from a Storage. The test server and the read replica differ in their
// storages only.
package protocol
