package promises_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/metrics"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

// The canaries: a Secret's value, and a token. Neither may appear anywhere.
const (
	canaryValue = "canary-value-6f1d-correct-horse"
	canaryToken = "canary-token-93ab-battery-staple"
)

// output is everything that a program could print, log or write.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) print(format string, args ...any) { fmt.Fprintf(o, format+"\n", args...) }

// take returns what was written since the last time.
func (o *output) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.text.Reset()
	return o.text.String()
}

func (o *output) refuse(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, canary := range []string{canaryValue, canaryToken} {
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
			if at := bytes.Index(o.text.Bytes(), []byte(form)); at >= 0 {
				t.Errorf("the canary %q is out: …%s…", form, o.text.Bytes()[max(0, at-300):min(o.text.Len(), at+len(form)+100)])
			}
		}
	}
}

// explain prints everything about an error, with different formats.
func (o *output) explain(err error) {
	for ; err != nil; err = errors.Unwrap(err) {
		o.print("%v\n%+v\n%#v", err, err, err.Error())
	}
}

// secrets are objects with the canary in every place that can hold Secrets.
func secrets() []*unstructured.Unstructured {
	template := map[string]any{"kind": "Secret", "stringData": map[string]any{"password": canaryValue}}
	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "shop", "name": "db", "annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": `{"kind":"Secret","stringData":{"password":"` + canaryValue + `"}}`,
			}},
			"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(canaryValue))},
		}},
		{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Bundle", "metadata": map[string]any{"namespace": "shop", "name": "b"},
			"spec": map[string]any{"template": template},
		}},
	}
}

// broken are bodies and frames that quote the canary where they cannot be decoded.
func broken() []tidingstest.Fault {
	frame := func(object string) tidingstest.Fault {
		return tidingstest.Fault{After: 1, Events: []tidingstest.RawEvent{{Raw: []byte(`{"type":"MODIFIED","object":` + object + "}\n")}}, End: tidingstest.Close}
	}
	of := func(rest string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"db","resourceVersion":"9"},` + rest + `}`
	}
	return []tidingstest.Fault{
		frame(of(`"data":"` + canaryValue + `"`)), frame(of(`"data":{"password":"%%` + canaryValue + `"}`)),
		frame(of(`"data":{"a":"` + canaryValue)), frame(`"` + canaryValue + `"`), frame(canaryValue),
		{Answer: &tidingstest.Answer{Code: 200, ContentType: "application/json", Body: []byte(`{"kind":"SecretList","items":[` + of(`"data":"`+canaryValue+`"`) + `,{"data":"` + canaryValue)}},
		{Answer: &tidingstest.Answer{Code: 200, ContentType: "application/vnd.kubernetes.protobuf", Body: []byte("k8s\x00" + canaryValue)}},
		{Answer: &tidingstest.Answer{Code: 200, ContentType: "application/json", Body: []byte(canaryValue)}},
		{Err: apierrors.NewUnauthorized("no")}, {Err: apierrors.NewInternalError(errors.New("no"))}, {HangUp: true}, {CutAfterBytes: 200}, {CutAfterBytes: 600},
	}
}

// TestCanaries puts informers with Secrets and a token through everything that a server can do, and
// searches for the canaries in all output: logs at every level, errors, statuses, metrics, the
// recording, goroutine stacks, panics of handlers.
func TestCanaries(t *testing.T) {
	var out output
	file := filepath.Join(t.TempDir(), "recording")
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.AddResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "bundles"}, "Bundle")
		for _, o := range secrets() {
			server.Create(o)
		}
		server.RequireToken(canaryToken)
		config := server.Config()
		config.BearerToken = canaryToken
		recorder, err := recording.Create(file, recording.Options{})
		if err != nil {
			t.Fatal(err)
		}
		factory, err := tidings.NewFactory(config, tidings.Options{
			Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), OnError: out.explain, Recorder: recorder,
			Audit: time.Minute, OnMutation: func(m tidings.Mutation) { out.print("%+v", m) },
		})
		if err != nil {
			t.Fatal(err)
		}
		follow[*corev1.Secret](t, factory, tidings.Scope{})
		follow[*unstructured.Unstructured](t, factory, tidings.Scope{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}})
		follow[*unstructured.Unstructured](t, factory, tidings.Scope{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "bundles"}})
		follow[*metav1.PartialObjectMetadata](t, factory, tidings.Scope{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}})
		if err := factory.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		out.explain(factory.WaitForSync(t.Context()))
		for _, fault := range broken() {
			for range 4 { // informers
				server.Inject(tidingstest.Any, fault)
			}
			server.BreakConnections()
			time.Sleep(20 * time.Second)
			server.Compact()
			for _, o := range secrets() {
				server.Update(o)
			}
			time.Sleep(20 * time.Second)
			out.see(t, factory)
		}
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte("[redacted")) && !strings.Contains(string(data), base64.StdEncoding.EncodeToString([]byte("[redacted, 31 bytes]"))) {
		t.Error("the recording has no Secret at all; the test proves nothing")
	}
	if _, err := out.Write(data); err != nil {
		t.Fatal(err)
	}
	out.refuse(t)
	if n := strings.Count(out.text.String(), "level="); n < 10 {
		t.Errorf("only %d lines were logged; the test proves nothing", n)
	}
}

// follow starts an informer with a handler that panics on every tenth call.
func follow[T tidings.Object](t *testing.T, factory *tidings.Factory, scope tidings.Scope) {
	t.Helper()
	inf, err := tidings.Informer[T](factory, scope)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	if _, err := inf.AddHandler(tidings.DeltaFunc[T](func(tidings.Delta[T]) {
		if calls++; calls%10 == 0 {
			panic("a handler's own words")
		}
	}), tidings.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
}

// see prints everything that an operator can look at.
func (o *output) see(t *testing.T, factory *tidings.Factory) {
	t.Helper()
	for _, st := range factory.Status() {
		o.print("%+v", st)
		o.explain(st.NotFresh)
		for _, p := range st.Parts {
			if e := p.Reflector.LastError; e != nil {
				o.explain(e)
			}
			for _, s := range p.Reflector.Skipped {
				o.explain(s.Err)
			}
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(metrics.Sources{Informers: factory.Status}))
	families, err := registry.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range families {
		o.print("%v", f)
	}
	if err := pprof.Lookup("goroutine").WriteTo(o, 2); err != nil {
		t.Error(err)
	}
}

// TestTokenStaysOutOfErrors puts the token in every place of a configuration with an address where nothing works.
func TestTokenStaysOutOfErrors(t *testing.T) {
	var out output
	synctest.Test(t, func(t *testing.T) {
		failing := func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				return nil, fmt.Errorf("%s %s: no way", r.Method, r.URL.Redacted())
			})
		}
		for _, config := range []*rest.Config{
			{Host: "https://server.test", BearerToken: canaryToken, WrapTransport: failing},
			{Host: "https://user:" + canaryToken + "@server.test", WrapTransport: failing},
			{Host: "https://server.test", Username: "u", Password: canaryToken, WrapTransport: failing},
			{Host: "://" + canaryToken},
			{Host: "https://server.test", TLSClientConfig: rest.TLSClientConfig{KeyData: []byte(canaryToken), CertData: []byte(canaryToken)}},
		} {
			factory, err := tidings.NewFactory(config, tidings.Options{
				Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), OnError: out.explain,
			})
			if err != nil {
				if !strings.Contains(config.Host, "://"+canaryToken) { // what the user typed as an address may be quoted
					out.explain(err)
				}
				continue
			}
			follow[*corev1.Secret](t, factory, tidings.Scope{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := factory.Start(ctx); err != nil {
				t.Fatal(err)
			}
			out.explain(factory.WaitForSync(ctx))
			out.see(t, factory)
			cancel()
			if err := factory.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	out.refuse(t)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
