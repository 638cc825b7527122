// Package callers says who sends a request, and what they may read. Both is asked of the API server, and remembered for
// as long as delegated servers do.
package callers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
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

	"github.com/tidings/tidings/serve/internal/failure"
)

// Credential is what a caller proved its identity with.
type Credential int

const (
	// ByToken callers are forwarded with their own token.
	ByToken Credential = iota
	// ByCertificate callers can only be forwarded by impersonation: nobody else has their key, or that of their front
	// proxy.
	ByCertificate
)

// Caller is an authenticated user, and by what it is one: forwarding passes on the same credential, so that nobody is
// one user here and another at the API server.
type Caller struct {
	user.Info
	Credential Credential
}

// Access decides who a caller is and what it may read. Upstream's delegated authenticators and
// authorizer ask the API server, and remember the answers for CacheTTL.
type Access struct {
	proxied      authenticator.Request // callers of the front proxy; nil if there is none
	certificates authenticator.Request // nil if there is no authority for them
	tokens       authenticator.Request
	authorizer   authorizer.Authorizer
	asking       singleflight.Group // of reviews, so that equal ones are asked once
}

const (
	// CacheTTL is how long an answer about a token or a permission is remembered: upstream's
	// default for delegated servers.
	CacheTTL = 10 * time.Second
	// ReviewTimeout limits a review.
	ReviewTimeout = 5 * time.Second
)

// reviewBackoff is for reviews that fail.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// New returns an Access that asks the API server behind client, and remembers answers for ttl.
func New(
	client kubernetes.Interface, authority dynamiccertificates.CAContentProvider, proxy *FrontProxy, ttl time.Duration,
) (*Access, error) {
	tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: ReviewTimeout,
		WebhookRetryBackoff: &reviewBackoff, CacheTTL: ttl,
	}.New()
	if err != nil {
		return nil, err
	}
	authorizer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: ttl, DenyCacheTTL: ttl,
		WebhookRetryBackoff: &reviewBackoff,
	}.New()
	if err != nil {
		return nil, err
	}
	a := &Access{tokens: tokens, authorizer: authorizer}
	if authority != nil {
		a.certificates = group.NewAuthenticatedGroupAdder(x509.NewDynamic(authority.VerifyOptions,
			x509.CommonNameUserConversion))
	}
	if proxy != nil {
		a.proxied = group.NewAuthenticatedGroupAdder(proxy.authenticator())
	}
	return a, nil
}

// Why a caller is not known.
var (
	ErrUnauthenticated = errors.New("no valid credentials")
	ErrNobodyKnows     = errors.New("the API server cannot say who this is")
)

// Authenticate returns who sent a request: what a front proxy says counts before a certificate, and that before a
// token, as on the API server.
func (a *Access) Authenticate(r *http.Request) (Caller, error) {
	authorization := r.Header.Values("Authorization")
	r = r.Clone(r.Context()) // authenticators remove headers, which forwarding needs
	for _, byTLS := range []authenticator.Request{a.proxied, a.certificates} {
		if byTLS == nil {
			continue
		}
		// A certificate that is not valid proves nothing, and does not spoil a token, as on the API server.
		if response, ok, err := byTLS.AuthenticateRequest(r); err == nil && ok {
			return a.accept(response, ByCertificate)
		}
	}
	if len(authorization) > 1 { // which of them the API server would see, behind yet another proxy, is not known
		return Caller{}, ErrUnauthenticated
	}
	response, ok, err := a.tokens.AuthenticateRequest(r)
	switch {
	case failure.Undecided(err):
		return Caller{}, fmt.Errorf("%w: %w", ErrNobodyKnows, err)
	case err != nil:
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	case !ok:
		return Caller{}, ErrUnauthenticated
	}
	return a.accept(response, ByToken)
}

// accept returns the caller that an authenticator found. One without a name is nobody, and so is "system:anonymous":
// which paths the API server opens to strangers is known to it alone.
func (a *Access) accept(response *authenticator.Response, c Credential) (Caller, error) {
	if response.User == nil || response.User.GetName() == "" || response.User.GetName() == user.Anonymous {
		return Caller{}, ErrUnauthenticated
	}
	return Caller{response.User, c}, nil
}

// Authorize returns whether attributes may be read, and why not. An error says that nobody knows.
func (a *Access) Authorize(
	ctx context.Context, attributes authorizer.Attributes,
) (allowed bool, reason string, err error) {
	if attributes.GetVerb() == "get" && attributes.GetName() != "" && a.mayReadAll(ctx, attributes) {
		return true, "", nil
	}
	return a.review(ctx, attributes)
}

// mayReadAll reports whether the user may get each object of a resource in a namespace, and list them all. Then a get
// needs no review of its own. In a review, an empty name means all objects; should an authorizer not know that, the
// right to list is still exactly that to read every one of them, so the user gets nothing that the API server would
// withhold.
func (a *Access) mayReadAll(ctx context.Context, one authorizer.Attributes) bool {
	if one.GetSubresource() != "" || !one.IsResourceRequest() {
		return false
	}
	for _, verb := range []string{"list", "get"} {
		allowed, _, err := a.review(ctx, authorizer.AttributesRecord{
			User: one.GetUser(), Verb: verb, Namespace: one.GetNamespace(), APIGroup: one.GetAPIGroup(),
			APIVersion: one.GetAPIVersion(), Resource: one.GetResource(), ResourceRequest: true,
		})
		if !allowed || err != nil {
			return false
		}
	}
	return true
}

type decision struct {
	allowed bool
	reason  string
}

// review asks for exactly these attributes. Who asks while the same is being asked waits for that answer.
func (a *Access) review(
	ctx context.Context, attributes authorizer.Attributes,
) (allowed bool, reason string, err error) {
	answer := a.asking.DoChan(reviewKey(attributes), func() (any, error) {
		// Others wait for this answer, too: that the first one has gone must not decide about them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReviewTimeout)
		defer cancel()
		d, reason, err := a.authorizer.Authorize(ctx, attributes)
		if d == authorizer.DecisionAllow {
			return decision{allowed: true}, nil
		}
		return decision{reason: reason}, err
	})
	select {
	case result := <-answer:
		d, _ := result.Val.(decision)
		return d.allowed, d.reason, result.Err
	case <-ctx.Done():
		return false, "", ctx.Err()
	}
}

// reviewKey is equal for equal reviews, and only for these. It has everything that an authorizer may look at, groups
// and extra included, since two tokens of one name need not have the same rights; and it quotes what callers choose, so
// that no selector can look like another review.
func reviewKey(a authorizer.Attributes) string {
	u := a.GetUser()
	fields, _ := a.GetFieldSelector() // what cannot be parsed is not part of a review
	labels, _ := a.GetLabelSelector()
	return fmt.Sprintf("%q %q %q %q %q %q %q %q %q %q %q %q %t %q %q",
		u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(),
		a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(),
		a.GetName(), a.GetPath(), a.IsResourceRequest(), fields, labels)
}

// Impersonates reports whether a request asks to act as somebody else.
func Impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "impersonate-") {
			return true
		}
	}
	return false
}

// UserOf returns the name of the user who sent a request that has been authenticated.
func UserOf(r *http.Request) string {
	if u, ok := request.UserFrom(r.Context()); ok {
		return u.GetName()
	}
	return ""
}
