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
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// newReviewer puts a proxy in front of a test server, which reviews tokens and access as an API
// server with these rules does: a token is the name of its user, and everybody but "nobody" may do
// everything. It returns the configuration of the replicas' own user.
func newReviewer(t *testing.T, s *tidingstest.Server) *rest.Config {
	t.Helper()
	target, err := url.Parse(s.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.Transport = s.Config().Transport
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			var review authenticationv1.TokenReview
			answerReview(w, r, &review, func() {
				review.Status.Authenticated = review.Spec.Token != ""
				review.Status.User.Username = review.Spec.Token
			})
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			var review authorizationv1.SubjectAccessReview
			answerReview(w, r, &review, func() { review.Status.Allowed = review.Spec.User != "nobody" })
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return &rest.Config{Host: h.URL, BearerToken: "replica", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
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
