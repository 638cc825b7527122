// Package operator measures what operators do, with controller-runtime and with Tidings: read few of many objects, read
// a kind in several forms, and write while the cache is behind. It is apart from package measure, so that the other
// measurements run without controller-runtime in the process.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// Kind is the kind of the objects on a server.
type Kind string

// The kinds: Secrets and ConfigMaps have random data.
const (
	Secrets    Kind = "secrets"
	ConfigMaps Kind = "configmaps"
	Pods       Kind = "pods"
)

// Server is a server process with objects.
type Server struct {
	Kind    Kind
	Objects int
	Bytes   int // of data in each
}

// Measurement selects a measurement: the one field that is set besides Engine. ClientGo stands for controller-runtime.
type Measurement struct {
	Engine engine.Name
	// Host is the address of the server, if the measurement has one.
	Host       string
	Reads      *Reads      `json:",omitempty"`
	Forms      *Forms      `json:",omitempty"`
	Noting     *Noting     `json:",omitempty"`
	Duplicates *Duplicates `json:",omitempty"`
	Jobs       *Jobs       `json:",omitempty"`
}

// Run runs the measurement.
func (m Measurement) Run(t *testing.T) (measure.Metrics, error) {
	ctrllog.SetLogger(logr.Discard())
	switch {
	case m.Reads != nil:
		return m.Reads.run(t.Context(), m)
	case m.Forms != nil:
		return m.Forms.run(t.Context(), m)
	case m.Noting != nil:
		return m.Noting.run(t.Context())
	case m.Duplicates != nil:
		return m.Duplicates.run(t, m.Engine), nil
	case m.Jobs != nil:
		return m.Jobs.run(t), nil
	default:
		return nil, errors.New("there is nothing to measure")
	}
}

// Run serves the objects, writes the address to standard output, in JSON, and ends when standard input does.
func (s Server) Run(t *testing.T) error {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})
	objects, err := s.objects()
	if err != nil {
		return err
	}
	server.Load(objects...)
	if err := json.NewEncoder(os.Stdout).Encode(server.Config().Host); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

const namespace = "bench"

func (s Server) objects() ([]object.Object, error) {
	all := make([]object.Object, s.Objects)
	random := rand.NewChaCha8([32]byte{1})
	meta := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: nameOf(i),
			Labels: map[string]string{"app": fmt.Sprint("app-", i%50)}}
	}
	data := func(n int) []byte {
		b := make([]byte, n)
		_, _ = random.Read(b) // never fails
		return b
	}
	switch s.Kind {
	case Secrets:
		for i := range all {
			all[i] = &corev1.Secret{ObjectMeta: meta(i), Type: corev1.SecretTypeOpaque,
				Data: map[string][]byte{"value": data(s.Bytes)}}
		}
	case ConfigMaps:
		for i := range all {
			all[i] = &corev1.ConfigMap{ObjectMeta: meta(i),
				Data: map[string]string{"value": fmt.Sprintf("%x", data(s.Bytes/2))}}
		}
	case Pods:
		for i, pod := range wiretest.Pods(s.Objects, 1) {
			all[i] = pod
		}
	default:
		return nil, fmt.Errorf("there are no %q to serve", s.Kind)
	}
	return all, nil
}

func nameOf(i int) string { return fmt.Sprintf("object-%06d", i) }

// background runs f until the returned function is called, which returns its error.
func background(ctx context.Context, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() error { cancel(); return <-ended }
}
