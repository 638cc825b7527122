package serve

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
)

// Options configures a Server. Config and Resources are required.
type Options struct {
	// Config is how the API server is reached, with the rights that Resources need, and those of
	// system:auth-delegator.
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
	// BookmarkInterval is how often a watch gets a bookmark, and how often the API server is asked for its version;
	// default a minute. A watch is authorized again as often, and at least every 40 seconds.
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

func (o Options) withDefaults() (Options, error) {
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
	o.Resources = slices.Compact(slices.Sorted(slices.Values(o.Resources)))
	if err := cmp.Or(o.checkResources(), o.checkLimits()); err != nil {
		return o, fmt.Errorf("serve: %w", err)
	}
	return o, nil
}

func orDefault[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}

// resourceName is how kubectl names resources: "pods", "deployments.apps", or with a version, "pods.v1.".
var resourceName = regexp.MustCompile(`^[a-z][a-z0-9-]*((\.[a-z0-9-]+)+|\.v[a-z0-9]+\.)?$`)

// checkResources returns what is wrong with what is to be served.
func (o *Options) checkResources() error {
	switch {
	case o.Config == nil:
		return errors.New("Options.Config is missing: how to reach the API server")
	case len(o.Resources) == 0:
		return errors.New("no resources: name those that are to be served from memory, such as " +
			"pods,nodes,widgets.example.com")
	}
	for _, name := range o.Resources {
		switch {
		case !resourceName.MatchString(name):
			return fmt.Errorf("%q is not the name of a resource (--resources): "+
				"names are plural and in lower case, such as pods, deployments.apps or widgets.example.com", name)
		case isSecrets(name) && !o.ServeSecrets:
			return errors.New("secrets are kept in memory only if that is asked for explicitly (--serve-secrets)")
		}
	}
	return nil
}

// isSecrets reports whether a resource's name is that of secrets, with or without their version.
func isSecrets(resource string) bool {
	return resource == "secrets" || strings.HasPrefix(resource, "secrets.v1.")
}

const (
	// leastInterval is the shortest time that makes sense for any option.
	leastInterval = 10 * time.Millisecond
	// leastBudget is about what the program takes without objects.
	leastBudget = 8 << 20
)

// checkLimits returns what is wrong with the limits.
func (o *Options) checkLimits() error {
	for name, value := range map[string]time.Duration{
		"JournalAge (--journal-age)": o.JournalAge, "BookmarkInterval": o.BookmarkInterval,
		"WriteTimeout": o.WriteTimeout, "SaveInterval": o.SaveInterval,
	} {
		if value < leastInterval {
			return fmt.Errorf("%s is %v, and has to be at least %v", name, value, leastInterval)
		}
	}
	for name, value := range map[string]int64{
		"JournalBytes (--journal-bytes)":               o.JournalBytes,
		"RequestsPerUser (--requests-per-user)":        int64(o.RequestsPerUser),
		"LongRunningPerUser (--long-running-per-user)": int64(o.LongRunningPerUser),
	} {
		if value < 1 {
			return fmt.Errorf("%s is %d, and has to be at least 1", name, value)
		}
	}
	if o.MemoryBudget != 0 && o.MemoryBudget < leastBudget {
		return fmt.Errorf("MemoryBudget (--memory-budget) is %d bytes, and has to be at least %d: such as 512Mi",
			o.MemoryBudget, leastBudget)
	}
	return nil
}
