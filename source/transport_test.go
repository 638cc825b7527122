package source

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestPlainTransport is for unencrypted connections without custom settings.
func TestPlainTransport(t *testing.T) {
	buffer := func(config rest.Config) int {
		client, err := NewClient(&config)
		if err != nil {
			t.Fatal(err)
		}
		transport := client.http.Transport
		for {
			switch of := transport.(type) {
			case *http.Transport:
				return of.ReadBufferSize
			case utilnet.RoundTripperWrapper:
				transport = of.WrappedRoundTripper()
			default:
				return 0
			}
		}
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") }
	for name, tt := range map[string]struct {
		config rest.Config
		own    bool
	}{
		"plain":            {rest.Config{Host: "http://a.test"}, true},
		"TLS":              {rest.Config{Host: "https://a.test"}, false},
		"with a dialer":    {rest.Config{Host: "http://a.test", Dial: dial}, false},
		"with a proxy":     {rest.Config{Host: "http://a.test", Proxy: http.ProxyFromEnvironment}, false},
		"with a transport": {rest.Config{Host: "http://a.test", Transport: &http.Transport{}}, false},
		"insecure":         {rest.Config{Host: "http://a.test", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, false},
		"with a plugin":    {rest.Config{Host: "http://a.test", ExecProvider: &api.ExecConfig{Command: "none", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}}, false},
	} {
		if got := buffer(tt.config); (got == plainBuffer) != tt.own {
			t.Errorf("%s: the buffer has %d bytes", name, got)
		}
	}
}
