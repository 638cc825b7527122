// The go.mod of the programs in the tests beside this folder.
module example.com/shop

go 1.26

require (
	github.com/tidings/tidings v0.0.0
	github.com/tidings/tidings/controllerruntime v0.0.0
	k8s.io/client-go v0.37.2
	sigs.k8s.io/controller-runtime v0.25.2
)

replace (
	github.com/tidings/tidings => ../modules/tidings
	github.com/tidings/tidings/controllerruntime => ../modules/tidings/controllerruntime
	k8s.io/client-go => ../modules/client-go
	sigs.k8s.io/controller-runtime => ../modules/controller-runtime
)
