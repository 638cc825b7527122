package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/serve/internal/callers"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/source"
)

// Server is a read replica. Its methods may be called from any goroutine.
type Server struct {
	options   Options
	access    *callers.Access
	resources []*replica.Resource
	resolver  *request.RequestInfoFactory
	forwarder *forwarder
	client    *source.Client
	clientset kubernetes.Interface
	inFlight  inFlight
	counts    counters
	watches   watches
	metrics   *serverMetrics

	shutdown chan struct{} // closed when watches are to end
	stopOnce sync.Once
}

// unthrottled returns a config without client-go's default limit of five requests a second, with which reviews of
// callers would wait for each other. A limit that was set stays.
func unthrottled(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1
	}
	return config
}

// NewServer returns a server that serves nothing from memory until Run. The error says what to do about it.
func NewServer(options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := source.NewClient(options.Config)
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(unthrottled(options.Config))
	if err != nil {
		return nil, err
	}
	access, err := callers.New(clientset, options.ClientCA, options.FrontProxy,
		cmp.Or(options.reviewTTL, callers.CacheTTL))
	if err != nil {
		return nil, err
	}
	forwarder, err := newForwarder(options)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: options, access: access, forwarder: forwarder, client: client, clientset: clientset,
		shutdown: make(chan struct{}),
		resolver: &request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
		inFlight: newInFlight(options),
	}
	for _, name := range options.Resources {
		o := replica.Options{
			Limits: replica.Limits{Bytes: options.JournalBytes, Age: options.JournalAge}, Logger: options.Logger,
			CheckInterval: options.BookmarkInterval, Packs: options.MemoryBudget > 0,
		}
		if options.Dir != "" && !isSecrets(name) {
			o.Saved, err = replica.NewSavedFile(options.Dir, name, options.Config, options.SaveInterval, options.Logger)
			if err != nil {
				return nil, err
			}
		}
		s.resources = append(s.resources, replica.NewResource(name, o))
	}
	s.metrics = newServerMetrics(s)
	return s, nil
}

// Run keeps the resources current until ctx ends. When it returns, everything that it started has ended.
func (s *Server) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, r := range s.resources {
		running.Go(func() { r.Run(ctx, s.clientset.Discovery(), s.client) })
	}
	if ca, ok := s.options.ClientCA.(dynamiccertificates.ControllerRunner); ok {
		running.Go(func() { ca.Run(ctx, 1) })
	}
	if s.options.MemoryBudget > 0 {
		running.Go(func() { s.keepBudget(ctx) })
	}
	if s.options.FrontProxy != nil {
		running.Go(func() { s.options.FrontProxy.Run(ctx) })
	}
	running.Go(func() { s.watches.cutStalled(ctx, s.options.WriteTimeout) })
	running.Wait()
	s.client.CloseIdleConnections()
	s.forwarder.close()
}

// NewHTTPServer returns a server for the handler whose limits suit it: a watch is answered for as long as its client
// wants, and a client that does not read, or has gone without a word, is cut.
func (s *Server) NewHTTPServer() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: s.options.WriteTimeout, PingTimeout: s.options.WriteTimeout,
			WriteByteTimeout: s.options.WriteTimeout,
		},
	}
}

// MissingRights returns what the replica's own user lacks, a sentence each.
func (s *Server) MissingRights(ctx context.Context) (missing []string, err error) {
	needed := []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	}
	for _, name := range s.options.Resources {
		exact, group := schema.ParseResourceArg(name)
		if exact != nil {
			group = exact.GroupResource()
		}
		for _, verb := range []string{"list", "watch"} {
			needed = append(needed,
				authorizationv1.ResourceAttributes{Verb: verb, Group: group.Group, Resource: group.Resource})
		}
	}
	for _, right := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right},
		}
		review, err := s.clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(
			ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			name := schema.GroupResource{Group: right.Group, Resource: right.Resource}
			missing = append(missing,
				fmt.Sprintf("its cluster role must allow to %s %s in all namespaces", right.Verb, name))
		}
	}
	return missing, nil
}

// Shutdown ends all watches with a bookmark, so that their clients resume elsewhere without a list.
// It is idempotent and does not wait: http.Server.Shutdown does.
func (s *Server) Shutdown() { s.stopOnce.Do(func() { close(s.shutdown) }) }

// find returns the resource that a path names, if it is one of those served.
func (s *Server) find(info *request.RequestInfo) *replica.Resource {
	for _, r := range s.resources {
		found := r.Found()
		if found != nil && found.Group == info.APIGroup && found.Version == info.APIVersion &&
			found.Resource == info.Resource {
			return r
		}
	}
	return nil
}

// hostURL returns the address of the API server.
func hostURL(config *rest.Config) (*url.URL, error) {
	u, _, err := rest.DefaultServerUrlFor(config)
	return u, err
}

var _ http.Handler = (*Server)(nil)
