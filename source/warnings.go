package source

import (
	"context"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// warningHandler returns the config's warning handler, or nil.
func warningHandler(config *rest.Config) rest.WarningHandlerWithContext {
	switch {
	case config.WarningHandlerWithContext != nil:
		return config.WarningHandlerWithContext
	case config.WarningHandler != nil:
		return withoutContext{config.WarningHandler}
	}
	return nil
}

type withoutContext struct{ rest.WarningHandler }

func (h withoutContext) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	h.HandleWarningHeader(code, agent, text)
}

// warn passes the warnings in a response header to the handler.
func (c *Client) warn(ctx context.Context, header http.Header) {
	if len(header["Warning"]) == 0 {
		return
	}
	if c.warnings == nil {
		warnByDefault(ctx, header)
		return
	}
	found, _ := utilnet.ParseWarningHeaders(header["Warning"]) // ignore invalid ones
	for _, w := range found {
		c.warnings.HandleWarningHeaderWithContext(ctx, w.Code, w.Agent, w.Text)
	}
}

// warnByDefault passes the warnings to the default handler, as set by
// rest.SetDefaultWarningHandler. Only requests of package rest have access to that, so it makes
// such a request and answers it locally with the same header.
func warnByDefault(ctx context.Context, header http.Header) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Warning": header["Warning"]}, Body: http.NoBody}
	client := &http.Client{Transport: cannedTransport{answer}}
	request := rest.NewRequestWithClient(&url.URL{Scheme: "http", Host: "localhost"}, "", rest.ClientContentConfig{}, client)
	if body, err := request.Verb(http.MethodGet).Stream(ctx); err == nil {
		body.Close()
	}
}

// cannedTransport is a RoundTripper that answers every request with the same response.
type cannedTransport struct{ response *http.Response }

func (a cannedTransport) RoundTrip(*http.Request) (*http.Response, error) { return a.response, nil }
