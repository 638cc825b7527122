package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
)

// credential is what a caller proved its identity with.
type credential int

const (
	// byToken callers are forwarded with their own token.
	byToken credential = iota
	// byCertificate callers can only be forwarded by impersonation: nobody else has their key, or that of their front
	// proxy.
	byCertificate
)

// caller is an authenticated user, and by what it is one: forwarding passes on the same credential, so that nobody is
// one user here and another at the API server.
type caller struct {
	user.Info
	credential credential
}

// access decides who a caller is and what it may read. Upstream's delegated authenticators and
// authorizer ask the API server, and remember the answers for cacheTTL.
type access struct {
	proxied      authenticator.Request // callers of the front proxy; nil if there is none
	certificates authenticator.Request // nil if there is no authority for them
	tokens       authenticator.Request
	authorizer   authorizer.Authorizer
	asking       singleflight.Group // of reviews, so that equal ones are asked once
}

const (
	// cacheTTL is how long an answer about a token or a permission is remembered: upstream's
	// default for delegated servers.
	cacheTTL = 10 * time.Second
	// reviewTimeout limits a review.
	reviewTimeout = 5 * time.Second
)

// reviewBackoff is for reviews that fail.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// newAccess returns an access that asks the API server behind client, and remembers answers for ttl.
func newAccess(client kubernetes.Interface, o Options, ttl time.Duration) (*access, error) {
	tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
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
	a := &access{tokens: tokens, authorizer: authorizer}
	if o.ClientCA != nil {
		a.certificates = group.NewAuthenticatedGroupAdder(x509.NewDynamic(o.ClientCA.VerifyOptions,
			x509.CommonNameUserConversion))
	}
	if o.FrontProxy != nil {
		a.proxied = group.NewAuthenticatedGroupAdder(o.FrontProxy.authenticator())
	}
	return a, nil
}

// Why a caller is not known.
var (
	errUnauthenticated = errors.New("no valid credentials")
	errNobodyKnows     = errors.New("the API server cannot say who this is")
)

// authenticate returns who sent a request: what a front proxy says counts before a certificate, and that before a
// token, as on the API server.
func (a *access) authenticate(r *http.Request) (caller, error) {
	authorization := r.Header.Values("Authorization")
	r = r.Clone(r.Context()) // authenticators remove headers, which forwarding needs
	for _, byTLS := range []authenticator.Request{a.proxied, a.certificates} {
		if byTLS == nil {
			continue
		}
		// A certificate that is not valid proves nothing, and does not spoil a token, as on the API server.
		if response, ok, err := byTLS.AuthenticateRequest(r); err == nil && ok {
			return a.accept(response, byCertificate)
		}
	}
	if len(authorization) > 1 { // which of them the API server would see, behind yet another proxy, is not known
		return caller{}, errUnauthenticated
	}
	response, ok, err := a.tokens.AuthenticateRequest(r)
	switch {
	case noAnswer(err):
		return caller{}, fmt.Errorf("%w: %w", errNobodyKnows, err)
	case err != nil:
		return caller{}, fmt.Errorf("%w: %w", errUnauthenticated, err)
	case !ok:
		return caller{}, errUnauthenticated
	}
	return a.accept(response, byToken)
}

// accept returns the caller that an authenticator found. One without a name is nobody, and so is "system:anonymous":
// which paths the API server opens to strangers is known to it alone.
func (a *access) accept(response *authenticator.Response, c credential) (caller, error) {
	if response.User == nil || response.User.GetName() == "" || response.User.GetName() == user.Anonymous {
		return caller{}, errUnauthenticated
	}
	return caller{response.User, c}, nil
}

// unreachable reports whether an error says that a server did not answer.
func unreachable(err error) bool {
	if all, ok := err.(utilerrors.Aggregate); ok {
		return slices.ContainsFunc(all.Errors(), unreachable)
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// noAnswer reports whether an error of a review says that nobody has decided: a server did not answer, or only that it
// could not do so now.
func noAnswer(err error) bool {
	if all, ok := err.(utilerrors.Aggregate); ok {
		return slices.ContainsFunc(all.Errors(), noAnswer)
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	busy := ok && (status.ErrStatus.Code >= http.StatusInternalServerError ||
		status.ErrStatus.Code == http.StatusTooManyRequests)
	return busy || unreachable(err)
}

// authorize returns whether attributes may be read, and why not. An error says that nobody knows.
func (a *access) authorize(
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
func (a *access) mayReadAll(ctx context.Context, one authorizer.Attributes) bool {
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
func (a *access) review(
	ctx context.Context, attributes authorizer.Attributes,
) (allowed bool, reason string, err error) {
	answer := a.asking.DoChan(reviewKey(attributes), func() (any, error) {
		// Others wait for this answer, too: that the first one has gone must not decide about them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
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
