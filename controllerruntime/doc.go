// Package tidingsruntime lets controller-runtime's cache run on Tidings' engine. A program changes one line:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{})                                  // before
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: tidingsruntime.NewCache}) // after
//
// # How it is made
//
// controller-runtime's own cache stays: it reads the options, divides the work among namespaces and types, finds and copies what
// readers ask for. What it is given is other informers. It makes an informer of a ListerWatcher and of an example, and the
// two do not say which namespace and which selectors are meant. So the ListerWatcher is asked once for the request it would send,
// which is answered here (request.go); a source of Tidings' then lists and watches what that request names, and an informer from
// package clientgo stands between it and controller-runtime.
package tidingsruntime
