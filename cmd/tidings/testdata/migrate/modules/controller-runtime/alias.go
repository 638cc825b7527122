// Package controllerruntime has the shape of the real one, for tests of what is changed in a program.
package controllerruntime

import "sigs.k8s.io/controller-runtime/pkg/manager"

type Options = manager.Options

var NewManager = manager.New
