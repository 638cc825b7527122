package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// credential is what a caller proved its identity with.
type credential int

const (
	// byToken callers are forwarded with their own token.
	byToken credential = iota
	// byCertificate callers can only be forwarded by impersonation: nobody else has their key.
	byCertificate
)

// caller is an authenticated user.
type caller struct {
	user.Info
	credential credential
}

// access decides who a caller is and what it may read. Upstream's delegated authenticators and
// authorizer ask the API server, and remember the answers for cacheTTL.
type access struct {
	certificates, tokens authenticator.Request // certificates is nil if there is no authority for them
	authorizer           authorizer.Authorizer
}

const (
	// cacheTTL is how long an answer about a token or a permission is remembered: upstream's
	// default for delegated servers.
	cacheTTL = 10 * time.Second
	// reviewTimeout limits a TokenReview.
	reviewTimeout = 5 * time.Second
)

// reviewBackoff is for reviews that fail.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// newAccess returns an access that asks the API server behind client. ca has the authority of
// client certificates; nil accepts none.
func newAccess(client kubernetes.Interface, ca dynamiccertificates.CAContentProvider) (*access, error) {
	tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: &reviewBackoff, CacheTTL: cacheTTL,
	}.New()
	if err != nil {
		return nil, err
	}
	authorizer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: cacheTTL, DenyCacheTTL: cacheTTL, WebhookRetryBackoff: &reviewBackoff,
	}.New()
	if err != nil {
		return nil, err
	}
	a := &access{tokens: tokens, authorizer: authorizer}
	if ca != nil {
		a.certificates = group.NewAuthenticatedGroupAdder(x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion))
	}
	return a, nil
}

// errUnauthenticated is returned for a request without valid credentials.
var errUnauthenticated = errors.New("no valid credentials")

// authenticate returns who sent a request. A certificate counts before a token, as on the API server.
func (a *access) authenticate(r *http.Request) (caller, error) {
	if a.certificates != nil {
		if response, ok, err := a.certificates.AuthenticateRequest(r); err == nil && ok {
			return a.accept(response, byCertificate)
		}
	}
	// The authenticator removes the header, which forwarding needs.
	authorization := r.Header.Values("Authorization")
	clone := r.Clone(r.Context())
	if len(authorization) > 1 {
		return caller{}, errUnauthenticated
	}
	response, ok, err := a.tokens.AuthenticateRequest(clone)
	switch {
	case err != nil:
		return caller{}, fmt.Errorf("%w: %w", errUnauthenticated, err)
	case !ok:
		return caller{}, errUnauthenticated
	}
	return a.accept(response, byToken)
}

func (a *access) accept(response *authenticator.Response, c credential) (caller, error) {
	if response.User == nil || response.User.GetName() == "" || response.User.GetName() == user.Anonymous {
		return caller{}, errUnauthenticated
	}
	return caller{response.User, c}, nil
}

// authorize returns whether attributes may be read, and why not. An error says that nobody knows.
func (a *access) authorize(ctx context.Context, attributes authorizer.Attributes) (allowed bool, reason string, err error) {
	decision, reason, err := a.authorizer.Authorize(ctx, attributes)
	if decision == authorizer.DecisionAllow {
		return true, "", nil
	}
	return false, reason, err
}

// impersonates reports whether a request asks to act as somebody else.
func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "impersonate-") {
			return true
		}
	}
	return false
}

// userOf returns the name of the user who sent a request that has been authenticated.
func userOf(r *http.Request) string {
	if u, ok := request.UserFrom(r.Context()); ok {
		return u.GetName()
	}
	return ""
}
