package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/serve/internal/callers"
)

// A request that is forwarded is read twice: here, which decides who its caller is and whether it may be answered from
// memory, and by the API server. Each header has to mean the same to both. Otherwise a caller could be one user here
// and another there.

// ofConnection are what a Connection header may name: headers and options of the connection itself, of which an API
// server reads none but those of an upgrade, which are passed on.
var ofConnection = map[string]bool{
	"": true, "close": true, "keep-alive": true, "upgrade": true, "te": true, "trailer": true,
	"transfer-encoding": true,
	"proxy-connection":  true, "proxy-authorization": true, "http2-settings": true,
}

// checkConnection refuses a request whose Connection header names a header of the request itself. A proxy has to remove
// what is named there, and an API server, which is none, obeys it all the same: with "Connection: Impersonate-User", it
// would see the caller's own rights in place of those of the user that the caller, perhaps an authenticating proxy in
// front of this one, acts as. So it is with each header that an API server reads, and no client names one.
func checkConnection(h http.Header) error {
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !ofConnection[strings.ToLower(name)] {
				return apierrors.NewBadRequest(fmt.Sprintf(
					"the Connection header names %q, which this replica would have to remove from the request", name))
			}
		}
	}
	return nil
}

// asReceived are headers that net/http's proxy removes, and that an API server puts into its audit log or passes on to
// what it is a proxy of.
var asReceived = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// passOn makes the headers of a request those that the API server would have seen without the replica, except that
// nothing says who the caller is besides its credentials, and that the audit log can name the caller's address.
func passOn(r *httputil.ProxyRequest, proxy *callers.FrontProxy) {
	for name := range r.Out.Header {
		if proxy.IsIdentity(name) {
			delete(r.Out.Header, name)
		}
	}
	for _, name := range asReceived {
		if values := r.In.Header[name]; values != nil {
			r.Out.Header[name] = slices.Clone(values)
		}
	}
	if host, _, err := net.SplitHostPort(r.In.RemoteAddr); err == nil {
		r.Out.Header["X-Forwarded-For"] = []string{strings.Join(append(r.Out.Header["X-Forwarded-For"], host), ", ")}
	}
}

// setPrivate says that no cache may keep an answer, which is for its caller alone, as an API server does of every one.
func setPrivate(h http.Header) { h.Set("Cache-Control", "no-cache, private") }
