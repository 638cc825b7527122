package controllers

import (
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/clientgo"
)

// The engines that the controllers can run on.
const (
	Tidings  = "tidings"
	ClientGo = "client-go"
)

// NewFactories returns the informer factories of an engine. They differ only in their constructors.
func NewFactories(engine string, config *rest.Config) (Factories, error) {
	switch engine {
	case Tidings:
		return Factories{
			Typed:    clientgo.NewSharedInformerFactory(config, resync),
			Metadata: clientgo.NewMetadataSharedInformerFactory(config, resync),
		}, nil
	case ClientGo:
		typed, err := kubernetes.NewForConfig(config)
		if err != nil {
			return Factories{}, err
		}
		meta, err := metadata.NewForConfig(config)
		if err != nil {
			return Factories{}, err
		}
		return Factories{
			Typed:    informers.NewSharedInformerFactory(typed, resync),
			Metadata: metadatainformer.NewSharedInformerFactory(meta, resync),
		}, nil
	}
	return Factories{}, fmt.Errorf("unknown engine %q: use %q or %q", engine, Tidings, ClientGo)
}
