// Package controller uses a factory that somebody else has made.
package controller

import (
	"example.com/shop/client/informers/externalversions"
)

// New returns a function that counts the widgets.
func New(factory externalversions.SharedInformerFactory) func() int {
	widgets := factory.Example().V1().Widgets().Informer()
	return func() int { return len(widgets.GetStore().List()) }
}
