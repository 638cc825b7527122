package serve

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// reviewer is a proxy in front of a test server, which reviews tokens and access: a token is the name of its user.
type reviewer struct {
	// allow decides what a user may do. Nil allows everybody but "nobody" everything.
	allow func(authorizationv1.SubjectAccessReviewSpec) bool
	// groups returns the groups of a token's user, or false if the token is not valid. Nil knows all, without groups.
	groups func(token string) (groups []string, ok bool)
	// busy answers reviews with 503.
	busy atomic.Bool
	// enforce authorizes requests, too, as an API server does.
	enforce bool
	// hold keeps reviews of access waiting until it is closed; nil does not.
	hold chan struct{}

	// hangs returns what a read, not a watch, waits for before it is answered; nil is nothing.
	hangs func(*http.Request) <-chan struct{}

	access atomic.Int64 // reviews of access so far
	all    atomic.Int64 // reviews so far, of tokens, too
	proxy  *httputil.ReverseProxy
}

// start starts the proxy and returns the configuration of the replicas' own user.
func (v *reviewer) start(t testing.TB, s *tidingstest.Server) *rest.Config {
	t.Helper()
	target, err := url.Parse(s.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	v.proxy = httputil.NewSingleHostReverseProxy(target)
	v.proxy.FlushInterval = -1
	v.proxy.ErrorLog = log.New(io.Discard, "", 0)
	v.proxy.Transport = s.Config().Transport
	h := httptest.NewServer(v)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return &rest.Config{Host: h.URL, BearerToken: replicaUser, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// replicaUser is the user of the replicas, who may do everything.
const replicaUser = "replica"

func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v.hangs != nil && r.Method == http.MethodGet && !r.URL.Query().Has("watch") {
		if until := v.hangs(r); until != nil {
			select {
			case <-until:
			case <-r.Context().Done():
				return
			}
		}
	}
	if strings.HasSuffix(r.URL.Path, "reviews") {
		v.all.Add(1)
		if v.busy.Load() {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		answerReview(w, r, &review, func() {
			review.Status.Authenticated = review.Spec.Token != ""
			review.Status.User.Username = review.Spec.Token
			if v.groups != nil && review.Spec.Token != replicaUser {
				review.Status.User.Groups, review.Status.Authenticated = v.groups(review.Spec.Token)
			}
		})
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		v.access.Add(1)
		if v.hold != nil {
			<-v.hold
		}
		var review authorizationv1.SubjectAccessReview
		answerReview(w, r, &review, func() { review.Status.Allowed = v.allows(review.Spec) })
	case v.enforce && !v.allows(specOf(r)):
		writeError(w, r, apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	default:
		v.proxy.ServeHTTP(w, r)
	}
}

func (v *reviewer) allows(spec authorizationv1.SubjectAccessReviewSpec) bool {
	if v.allow == nil || spec.User == replicaUser {
		return spec.User != "nobody"
	}
	return v.allow(spec)
}

var infoFactory = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// specOf returns what a request has to be allowed.
func specOf(r *http.Request) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	info, err := infoFactory.NewRequestInfo(r)
	if err == nil && info.IsResourceRequest {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion,
			Resource: info.Resource, Subresource: info.Subresource,
			Namespace: info.Namespace, Name: info.Name,
		}
	}
	return spec
}

func answerReview(w http.ResponseWriter, r *http.Request, review any, decide func()) {
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	decide()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

// as returns the configuration of a user whose token is its name.
func as(c *rest.Config, user string) *rest.Config {
	c = rest.CopyConfig(c)
	c.BearerToken = user
	return c
}
