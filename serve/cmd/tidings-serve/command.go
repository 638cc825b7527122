package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tidings/tidings/serve"
)

// flags are the command's options.
type flags struct {
	kubeconfig, listen, certFile, keyFile, budget string
	drain                                         time.Duration
	verbose                                       bool
	serve.Options
}

func command() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:   "tidings-serve --resources pods,nodes --tls-cert-file FILE --tls-private-key-file FILE",
		Short: "A read replica of the Kubernetes API server",
		Long: "Answers gets, lists and watches of the named resources from memory, with the API server's own\n" +
			"resource versions, and forwards every other request with the caller's own identity. Point a\n" +
			"client's kubeconfig at it; nothing else changes.",
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return f.run(ctx, c)
		},
	}
	p := c.Flags()
	p.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server; empty uses the pod's service account")
	p.StringSliceVar(&f.Resources, "resources", nil,
		"resources to serve from memory, as kubectl names them: pods,deployments.apps,widgets.example.com")
	p.StringVar(&f.listen, "listen", ":8443", "address to listen on")
	p.StringVar(&f.certFile, "tls-cert-file", "", "the serving certificate")
	p.StringVar(&f.keyFile, "tls-private-key-file", "", "its key")
	p.Int64Var(&f.JournalBytes, "journal-bytes", 64<<20,
		"bytes of past changes to keep for each resource, from which watches resume")
	p.DurationVar(&f.JournalAge, "journal-age", 5*time.Minute, "how long to keep past changes")
	p.BoolVar(&f.ServeSecrets, "serve-secrets", false,
		"allow secrets among the resources: their values are then in this program's memory")
	p.BoolVar(&f.Impersonate, "impersonate", false,
		"forward the requests of callers with a client certificate by impersonating them, which needs the right to")
	p.IntVar(&f.RequestsPerUser, "requests-per-user", 100,
		"requests in flight of one user, without those that stay open: answered from memory, and as many forwarded; "+
			"more get 429")
	p.IntVar(&f.LongRunningPerUser, "long-running-per-user", 2000,
		"forwarded requests of one user that stay open: watches, followed logs, exec, port-forward, proxies; "+
			"more get 429")
	p.StringVar(&f.Dir, "dir", "",
		"directory of this replica's own in which to keep the objects, so that a start needs no list; "+
			"secrets are never written")
	p.StringVar(&f.budget, "memory-budget", "",
		"memory that this program may take, such as 512Mi: objects are kept packed and journals shortened; "+
			"empty sets no limit")
	p.DurationVar(&f.drain, "drain", 20*time.Second, "how long to wait for requests in flight when it ends")
	p.BoolVarP(&f.verbose, "verbose", "v", false, "log more")
	return c
}

func (f *flags) run(ctx context.Context, c *cobra.Command) error {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	f.Logger = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	if err := f.check(c); err != nil {
		return err
	}
	certificate, err := f.certificate()
	if err != nil {
		return err
	}
	if f.budget != "" {
		if f.MemoryBudget, err = serve.ParseBytes(f.budget); err != nil {
			return fmt.Errorf("--memory-budget: %w", err)
		}
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("%w; --listen takes another address", err)
	}
	defer listener.Close()
	server, err := f.server(ctx)
	if err != nil {
		return err
	}
	if f.MemoryBudget > 0 {
		debug.SetMemoryLimit(f.MemoryBudget)
	}
	missing, err := server.MissingRights(ctx)
	if err != nil {
		return fmt.Errorf("what this program may do: %w", err)
	}
	for _, right := range missing {
		f.Logger.ErrorContext(ctx, right)
	}
	h := server.NewHTTPServer()
	h.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, GetCertificate: certificate,
	}
	return f.serve(ctx, server, h, listener)
}

// check refuses what is missing, and what Options would take for the default.
func (f *flags) check(c *cobra.Command) error {
	if len(f.Resources) == 0 {
		return errors.New("--resources is missing: it names what is served from memory, such as " +
			"pods,nodes,widgets.example.com")
	}
	for _, name := range []string{"journal-bytes", "journal-age", "requests-per-user", "long-running-per-user"} {
		given := c.Flags().Lookup(name)
		if value := given.Value.String(); value == "0" || value == "0s" {
			return fmt.Errorf("--%s is %s, and has to be more; the default is %s", name, value, given.DefValue)
		}
	}
	if f.drain < 0 {
		return fmt.Errorf("--drain is %v, and cannot be negative; 0s breaks off requests at once", f.drain)
	}
	return nil
}

// certificate returns a function that reads the serving certificate, which may be replaced while the program runs.
func (f *flags) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if f.certFile == "" || f.keyFile == "" {
		return nil, errors.New("callers send their credentials here, so it serves TLS only: " +
			"set --tls-cert-file and --tls-private-key-file")
	}
	if _, err := tls.LoadX509KeyPair(f.certFile, f.keyFile); err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
		return &pair, err
	}, nil
}

func (f *flags) server(ctx context.Context) (*serve.Server, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	f.Config = config
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if f.ClientCA, f.FrontProxy, err = serve.ClusterAuthentication(ctx, client); err != nil {
		return nil, err
	}
	return serve.NewServer(f.Options)
}

func (f *flags) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%w; --kubeconfig says how to reach the API server", err)
	}
	config.QPS = -1
	config.UserAgent = "tidings-serve"
	return config, nil
}

// serve serves until ctx ends. Then it ends the watches with a bookmark, and waits for the other requests.
func (f *flags) serve(ctx context.Context, server *serve.Server, h *http.Server, l net.Listener) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { server.Run(running) })
	defer work.Wait()
	defer cancel()
	failed := make(chan error, 1)
	work.Go(func() { failed <- h.ServeTLS(l, "", "") })
	f.Logger.InfoContext(ctx, "serving", "address", l.Addr().String(), "resources", f.Resources)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	server.Shutdown()
	drained, stop := context.WithTimeout(running, f.drain)
	defer stop()
	if err := h.Shutdown(drained); err != nil {
		h.Close()
		f.Logger.InfoContext(ctx, "requests were broken off", "error", err)
	}
	return nil
}
