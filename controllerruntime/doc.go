// Package tidingsruntime runs controller-runtime's cache on Tidings' engine. A program changes one line:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{})                                  // before
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: tidingsruntime.NewCache}) // after
//
// # How it works
//
// controller-runtime's own cache stays: it interprets the options, splits the work among namespaces
// and types, and finds and copies what readers ask for. Only the informers are replaced.
// controller-runtime makes an informer from a ListerWatcher and an example object, neither of which
// reveals the namespace and the selectors. So the ListerWatcher is made to send one request, which
// is answered locally (request.go). A Tidings source then lists and watches what that request
// names, and an informer from package clientgo connects it to controller-runtime. With OneWatch, an
// informer of another form of a kind that is held already is a view of that (views.go).
package tidingsruntime
