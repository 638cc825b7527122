package clientgo_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/clientgo"
)

// onlyAsked is a transport that passes on requests without responding.
type onlyAsked chan *http.Request

func (c onlyAsked) RoundTrip(request *http.Request) (*http.Response, error) {
	c <- request
	return nil, errors.New("no answer")
}

// A factory over a clientset sends its requests as the clientset does: to its server, with its
// credentials, user agent and transports.
func TestConnectionOfClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, wrapped := make(onlyAsked, 1000), false
		client := kubernetes.NewForConfigOrDie(&rest.Config{
			Host: "http://server.example/behind/a/path", BearerToken: "secret", UserAgent: "program/1", Transport: asked,
			Impersonate: rest.ImpersonationConfig{UserName: "jane"},
			WrapTransport: func(next http.RoundTripper) http.RoundTripper {
				wrapped = true
				return next
			},
		})
		f := clientgo.NewSharedInformerFactoryFromClient(client, 0)
		run(t, f.Apps().V1().Deployments().Informer())
		request := <-asked
		if got := request.URL.Scheme + "://" + request.URL.Host + request.URL.Path; got != "http://server.example/behind/a/path/apis/apps/v1/deployments" {
			t.Errorf("asked %s", got)
		}
		for header, want := range map[string]string{"Authorization": "Bearer secret", "User-Agent": "program/1", "Impersonate-User": "jane"} {
			if got := request.Header.Get(header); got != want {
				t.Errorf("%s is %q, want %q", header, got, want)
			}
		}
		if !wrapped {
			t.Error("the config's transport was left out")
		}
	})
}

// A clientset without a transport lists and watches itself, and so does one that somebody has wrapped.
func TestClientsetWithoutConnection(t *testing.T) {
	for name, client := range map[string]kubernetes.Interface{
		"empty": &kubernetes.Clientset{}, "made of nothing": kubernetes.New(nil), "wrapped": struct{ kubernetes.Interface }{kubernetes.NewForConfigOrDie(&rest.Config{})},
	} {
		if native, ok := clientgo.Native(clientgo.NewSharedInformerFactoryFromClient(client, 0)); !ok || native.Client() != nil {
			t.Errorf("%s: the factory has connections of its own", name)
		}
	}
}
