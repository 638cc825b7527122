package conformance

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

//go:embed scripts/*.txt
var scripts embed.FS

// waitInterval is the polling interval of WAIT.
const waitInterval = 100 * time.Millisecond

// eventPatience is the timeout for an event of a watch.
const eventPatience = 20 * time.Second

// Run checks that a client observes the same on the server behind config as on a real one. It works
// in its own namespaces, which it deletes, and on a few cluster-scoped objects whose names begin
// with "conformance-".
func Run(t *testing.T, config *rest.Config) {
	run(t, config, func(*script) {})
	t.Run("clients", func(t *testing.T) { checkClients(t, config) })
}

// run runs the scripts, and calls after with each.
func run(t *testing.T, config *rest.Config, after func(*script)) {
	files, err := fs.Glob(scripts, "scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			text, err := scripts.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseScript(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			runScript(t, config, s)
			after(s)
		})
	}
}

// runner runs one script.
type runner struct {
	t       *testing.T
	host    string
	client  *http.Client
	symbols *symbols
	watches map[string]*stream
}

// newRunner returns a runner in a new namespace.
func newRunner(t *testing.T, config *rest.Config, namespace string) *runner {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, host: strings.TrimSuffix(config.Host, "/"), client: client, symbols: newSymbols(namespace), watches: map[string]*stream{}}
	r.namespace(namespace)
	return r
}

func runScript(t *testing.T, config *rest.Config, s *script) {
	r := newRunner(t, config, fmt.Sprintf("conformance-%s-%s", s.name[len("scripts/"):len(s.name)-len(".txt")],
		randomSuffix()))
	for _, st := range s.steps {
		observed := r.step(st)
		st.observed = observed
		if !alike(observed, st.want) && (st.differs == "" || !alike(observed, st.alternative)) {
			t.Errorf("%s: %s\n%s %s\nobserved:\n%s\nexpected:\n%s", s.name, st.title, st.verb, st.target, observed, st.want)
		}
	}
	for _, w := range r.watches {
		w.close()
	}
}

// namespace creates the script's namespace, and deletes it when the test ends.
func (r *runner) namespace(name string) {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	if observed := r.step(&step{verb: "POST", target: "/api/v1/namespaces", body: body, show: []string{"kind"}}); !strings.HasPrefix(observed, "201") {
		r.t.Fatalf("cannot create the namespace: %s", observed)
	}
	r.t.Cleanup(func() {
		request, err := http.NewRequest(http.MethodDelete, r.host+"/api/v1/namespaces/"+name, nil)
		if err != nil {
			return
		}
		if response, err := r.client.Do(request); err == nil {
			response.Body.Close()
		}
	})
}

// step runs a step and returns what it observed.
func (r *runner) step(st *step) string {
	switch st.verb {
	case "START":
		return r.start(st)
	case "EVENTS":
		return r.events(st)
	case "WAIT":
		return r.wait(st)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), eventPatience)
	defer cancel()
	response, err := r.request(ctx, st, st.verb, st.target)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return r.answer(st, response, data)
}

func (r *runner) request(ctx context.Context, st *step, method, target string) (*http.Response, error) {
	body := r.symbols.expand(st.body)
	request, err := http.NewRequestWithContext(ctx, method, r.host+r.symbols.expand(target), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "conformance/1")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range st.headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	return r.client.Do(request)
}

// answer describes a response: its code, warnings, media type if it is not JSON, and content.
func (r *runner) answer(st *step, response *http.Response, data []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", response.StatusCode)
	for _, w := range response.Header.Values("Warning") {
		fmt.Fprintf(&b, "Warning: %s\n", r.symbols.text(w))
	}
	if retry := response.Header.Get("Retry-After"); retry != "" {
		fmt.Fprintf(&b, "Retry-After: %s\n", retry)
	}
	media := response.Header.Get("Content-Type")
	if media != "application/json" {
		fmt.Fprintf(&b, "Content-Type: %s\n", media)
	}
	var content map[string]any
	switch err := json.Unmarshal(data, &content); {
	case strings.Contains(media, "protobuf"), strings.Contains(media, "yaml"):
	case err != nil:
		b.WriteString(r.symbols.text(string(data)))
	default:
		r.symbols.object(content, st.managed)
		b.WriteString(pretty(show(content, st.show)))
	}
	return strings.TrimSpace(b.String())
}

// wait reads a path until it exists and, if the target names a condition, until that is true.
func (r *runner) wait(st *step) string {
	target, condition, _ := strings.Cut(st.target, " ")
	ctx, cancel := context.WithTimeout(r.t.Context(), eventPatience)
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for {
		if response, err := r.request(ctx, st, http.MethodGet, target); err == nil {
			data, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusOK && (condition == "" || hasCondition(data, condition)) {
				return "200"
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "nothing"
		}
	}
}

func hasCondition(data []byte, name string) bool {
	var o struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if json.Unmarshal(data, &o) != nil {
		return false
	}
	for _, c := range o.Status.Conditions {
		if c.Type == name {
			return c.Status == "True"
		}
	}
	return false
}

// stream is an open watch.
type stream struct {
	cancel  context.CancelFunc
	body    io.Closer
	lines   chan string // closed when the watch ends
	started *step
}

func (w *stream) close() {
	w.cancel()
	w.body.Close()
}

// start opens a watch that runs alongside the script.
func (r *runner) start(st *step) string {
	name, target, _ := strings.Cut(st.target, " ")
	ctx, cancel := context.WithCancel(r.t.Context())
	response, err := r.request(ctx, st, http.MethodGet, target)
	if err != nil {
		cancel()
		return err.Error()
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		data, _ := io.ReadAll(response.Body)
		return r.answer(st, response, data)
	}
	w := &stream{cancel: cancel, body: response.Body, lines: make(chan string, 1000), started: st}
	go func() {
		defer close(w.lines)
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			w.lines <- lines.Text()
		}
	}()
	r.watches[name] = w
	return "200"
}

// events reads events of a watch. A count of 0 expects its end.
func (r *runner) events(st *step) string {
	name, count, err := st.events()
	w := r.watches[name]
	if err != nil || w == nil {
		return fmt.Sprintf("no watch %s: %v", name, err)
	}
	timeout := time.NewTimer(eventPatience)
	defer timeout.Stop()
	var b strings.Builder
	for i := 0; i < count || count == 0; i++ {
		select {
		case line, ok := <-w.lines:
			if !ok {
				b.WriteString("end\n")
				return strings.TrimSpace(b.String())
			}
			fmt.Fprintln(&b, r.event(st, line))
		case <-timeout.C:
			b.WriteString("nothing more\n")
			return strings.TrimSpace(b.String())
		}
	}
	return strings.TrimSpace(b.String())
}

func (r *runner) event(st *step, line string) string {
	var event struct {
		Type   string
		Object map[string]any
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		return err.Error()
	}
	if event.Type == "BOOKMARK" {
		metadata, _ := event.Object["metadata"].(map[string]any)
		metadata["resourceVersion"] = "$version"
		delete(metadata, "creationTimestamp")
		return event.Type + " " + pretty(map[string]any{"kind": event.Object["kind"], "metadata": metadata})
	}
	r.symbols.object(event.Object, st.managed)
	return event.Type + " " + pretty(show(event.Object, st.show))
}
