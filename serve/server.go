package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
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

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/source"
)

// Options configures a Server. Config and Resources are required.
type Options struct {
	// Config is how the API server is reached, with the rights that Resources need, and those of system:auth-delegator.
	Config *rest.Config
	// Resources are those that are served from memory, as kubectl names them: "pods",
	// "deployments.apps", "widgets.example.com".
	Resources []string
	// ServeSecrets must be set to name secrets among them.
	ServeSecrets bool
	// Impersonate forwards requests of callers with a client certificate by impersonating them,
	// which needs the right to. Without it, such callers can read the served resources only.
	Impersonate bool
	// ClientCA has the authority that client certificates are verified against. Nil accepts none.
	ClientCA dynamiccertificates.CAContentProvider
	// FrontProxy is believed who its callers are. Nil believes no such headers.
	FrontProxy *FrontProxy
	// JournalBytes and JournalAge limit the journal of each resource; the defaults are 64 MiB and 5 minutes.
	JournalBytes int64
	JournalAge   time.Duration
	// BookmarkInterval is how often a watch gets a bookmark and is authorized again, and how often
	// the API server is asked for its version; default a minute.
	BookmarkInterval time.Duration
	// WriteTimeout is how long a client may take to read what was sent to it; default 30 seconds.
	WriteTimeout time.Duration
	// RequestsPerUser limits the requests in flight of one user: those answered from memory, without watches, and as
	// many again that are forwarded; default 100.
	RequestsPerUser int
	// LongRunningPerUser limits the forwarded requests of one user that stay open: watches, followed logs, exec,
	// attach, port-forward and proxies. Default 2000.
	LongRunningPerUser int
	// Dir keeps the objects on disk, so that a start needs no list; empty keeps none. Secrets are never written. It has
	// to be this replica's own.
	Dir string
	// SaveInterval is how often they are saved, besides at the end; default 5 minutes.
	SaveInterval time.Duration
	// MemoryBudget is how much memory all of the program may take, in bytes; 0 sets no limit. With one, objects are
	// kept packed, which takes a fraction of the memory and some time to read them, and journals are shortened to stay
	// within it. If the objects alone exceed it, the log, /readyz?verbose and the metrics say what takes the memory.
	MemoryBudget int64
	// Logger receives what goes wrong; nil is silent.
	Logger *slog.Logger

	reviewTTL time.Duration // in place of cacheTTL, for tests
}

// Server is a read replica. Its methods may be called from any goroutine.
type Server struct {
	options   Options
	access    *access
	resources []*resource
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

// unthrottled returns a config without client-go's default limit of five requests a second, with which reviews of callers
// would wait for each other. A limit that was set stays.
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
	access, err := newAccess(clientset, options, cmp.Or(options.reviewTTL, cacheTTL))
	if err != nil {
		return nil, err
	}
	forwarder, err := newForwarder(options)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: options, access: access, forwarder: forwarder, client: client, clientset: clientset, shutdown: make(chan struct{}),
		resolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		inFlight: newInFlight(options),
	}
	limits := journalLimits{options.JournalBytes, options.JournalAge}
	for _, name := range options.Resources {
		r := &resource{
			name: name, collection: newCollection(limits), logger: options.Logger, checkInterval: options.BookmarkInterval,
			packs:      options.MemoryBudget > 0,
			selectable: func(t *protocol.ResourceType) []string { return selectableFields(clientset.Discovery(), t) },
		}
		if options.Dir != "" && !isSecrets(name) {
			if r.saved, err = newSavedFile(options, name); err != nil {
				return nil, err
			}
		}
		s.resources = append(s.resources, r)
	}
	s.metrics = newServerMetrics(s)
	return s, nil
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Config == nil:
		return o, errors.New("serve: Options.Config is missing: how to reach the API server")
	case len(o.Resources) == 0:
		return o, errors.New("serve: no resources: name those that are to be served from memory, such as pods,nodes,widgets.example.com")
	}
	for _, name := range o.Resources {
		if isSecrets(name) && !o.ServeSecrets {
			return o, errors.New("serve: secrets are kept in memory only if that is asked for explicitly (--serve-secrets)")
		}
	}
	o.Resources = slices.Compact(slices.Sorted(slices.Values(o.Resources)))
	orDefault(&o.JournalBytes, 64<<20)
	orDefault(&o.JournalAge, 5*time.Minute)
	orDefault(&o.BookmarkInterval, time.Minute)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.RequestsPerUser, 100)
	orDefault(&o.LongRunningPerUser, 2000)
	orDefault(&o.SaveInterval, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if min(o.JournalBytes, o.MemoryBudget, int64(o.RequestsPerUser), int64(o.LongRunningPerUser)) < 0 ||
		min(o.JournalAge, o.BookmarkInterval, o.WriteTimeout, o.SaveInterval) < 0 {
		return o, errors.New("serve: no option may be negative")
	}
	return o, nil
}

func isSecrets(resource string) bool {
	return resource == "secrets" || strings.HasPrefix(resource, "secrets.v1.")
}

func orDefault[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}

// Run keeps the resources current until ctx ends. When it returns, everything that it started has ended.
func (s *Server) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, r := range s.resources {
		running.Go(func() { r.run(ctx, s.clientset.Discovery(), s.client) })
	}
	if ca, ok := s.options.ClientCA.(dynamiccertificates.ControllerRunner); ok {
		running.Go(func() { ca.Run(ctx, 1) })
	}
	if s.options.MemoryBudget > 0 {
		running.Go(func() { s.keepBudget(ctx) })
	}
	if s.options.FrontProxy != nil {
		running.Go(func() { s.options.FrontProxy.run(ctx) })
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
			needed = append(needed, authorizationv1.ResourceAttributes{Verb: verb, Group: group.Group, Resource: group.Resource})
		}
	}
	for _, right := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		review, err := s.clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			name := schema.GroupResource{Group: right.Group, Resource: right.Resource}
			missing = append(missing, fmt.Sprintf("its cluster role must allow to %s %s in all namespaces", right.Verb, name))
		}
	}
	return missing, nil
}

// Shutdown ends all watches with a bookmark, so that their clients resume elsewhere without a list.
// It is idempotent and does not wait: http.Server.Shutdown does.
func (s *Server) Shutdown() { s.stopOnce.Do(func() { close(s.shutdown) }) }

// find returns the resource that a path names, if it is one of those served.
func (s *Server) find(info *request.RequestInfo) *resource {
	for _, r := range s.resources {
		found := r.found.Load()
		if found != nil && found.Group == info.APIGroup && found.Version == info.APIVersion && found.Resource == info.Resource {
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
