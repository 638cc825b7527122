package serve

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

// oddPaths are requests as no client sends them on purpose.
var oddPaths = []string{
	"/api/v1/namespaces/odd/configmaps/", "/api/v1/namespaces/odd/configmaps/a/",
	"/api/v1//namespaces/odd/configmaps",
	"/api/v1/namespaces//configmaps", "/API/v1/namespaces/odd/configmaps", "/api/v1/namespaces/odd/ConfigMaps",
	"/api/v1/namespaces/odd/configmaps/%61?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a%2Fb?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/..%2Fa?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/../configmaps",
	"/api/v1/namespaces/o%64d/configmaps?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/A?resourceVersion=0",
	"/api/v1/namespaces/none/configmaps?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a/x?resourceVersion=0",
	"/api/v1/watch/namespaces/odd/configmaps?timeoutSeconds=1&resourceVersion=0",
	"/api/v1/watch/namespaces/odd/configmaps/a?timeoutSeconds=1&resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a?watch=true&timeoutSeconds=1&resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&limit=1",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=-1",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=x",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=18446744073709551616",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&resourceVersionMatch=Exact",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&resourceVersion=999999999",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=00",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=%2B1",
}

// oddQueries are of lists.
var oddQueries = []string{
	"timeoutSeconds=1&watch", "watch=false", "watch=0", "timeoutSeconds=1&watch=no",
	"timeoutSeconds=1&watch=", "limit=-1", "limit=abc", "limit=0", "limit=", "limit=1e1", "Limit=1",
	"limit=9999999999999999999", "timeoutSeconds=-1", "timeoutSeconds=x", "timeoutSeconds=0",
	"resourceVersion=-1",
	"resourceVersion=00", "resourceVersion=0x1", "resourceVersion=%200",
	"resourceVersion=0&resourceVersionMatch=Exact",
	"resourceVersion=0&resourceVersionMatch=x", "resourceVersionMatch=NotOlderThan",
	"resourceVersionMatch=Exact&resourceVersion=",
	"resourceVersion=0&resourceVersion=1", "resourceVersion=0&labelSelector=",
	"resourceVersion=0&labelSelector=a%20in",
	"resourceVersion=0&labelSelector=n%20in%20(a,b)", "resourceVersion=0&labelSelector=n;x=1",
	"resourceVersion=0&labelSelector=%zz",
	"resourceVersion=0&labelSelector=n%3Da&labelSelector=n%3Db", "resourceVersion=0&labelSelector=!n",
	"resourceVersion=0&labelSelector=,",
	"resourceVersion=0&labelSelector=n%3E1", "resourceVersion=0&labelSelector=n%3D%3D",
	"resourceVersion=0&fieldSelector=,",
	"resourceVersion=0&fieldSelector=metadata.name%3Da,metadata.name%3Db",
	"resourceVersion=0&fieldSelector=metadata.name%3D",
	"resourceVersion=0&fieldSelector=metadata.name!%3Da",
	"resourceVersion=0&fieldSelector=metadata.namespace!%3Dodd",
	"resourceVersion=0&fieldSelector=metadata.namespace%3Dother", "resourceVersion=0&fieldSelector=data.x%3D1",
	"resourceVersion=0&fieldSelector=metadata.name", "resourceVersion=0&fieldSelector=metadata.name%3D%3Da",
	"resourceVersion=0&sendInitialEvents=true", "resourceVersion=0&allowWatchBookmarks=true",
	"resourceVersion=0&allowWatchBookmarks=x",
	"resourceVersion=0&pretty=true", "resourceVersion=0&pretty=false", "resourceVersion=0&unknown=1",
	"resourceVersion=0&continue=",
	"resourceVersion=0&continue=x", "continue=x", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
	"limit=1&continue=!!", "limit=2",
	"resourceVersion=0&timeout=1s", "resourceVersion=0&timeout=x", "resourceVersion=0&&&",
	"resourceVersion=0&=", "resourceVersion=0&=x",
	"resourceVersion=0&shardSelector=x", "resourceVersion=0&dryRun=All", "resourceVersion=0&fieldManager=x",
	"watch=true&timeoutSeconds=1&resourceVersion=0", "watch=1&timeoutSeconds=1&resourceVersion=0&limit=1",
	"watch=true&timeoutSeconds=1&resourceVersion=0&continue=x", "watch=true&timeoutSeconds=1&resourceVersion=x",
	"watch=true&timeoutSeconds=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
	"watch=true&timeoutSeconds=1&sendInitialEvents=true",
	"watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact",
	"watch=true&timeoutSeconds=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
	"watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Da",
	"watch=true&timeoutSeconds=1&resourceVersion=0&labelSelector=n%20in%20(a,b)",
	"watch=true&watch=false&timeoutSeconds=1&resourceVersion=0",
	"watch=false&watch=true&timeoutSeconds=1&resourceVersion=0",
	"watch=yes&timeoutSeconds=1&resourceVersion=0", "watch=True&timeoutSeconds=1&resourceVersion=0",
}

// oddAccepts are of a list and an object.
var oddAccepts = []string{
	"", "*/*", "application/*", "text/html", "application/json; charset=utf-8",
	"application/json;stream=watch", "application/json;q=0",
	"application/json;q=0.1, application/vnd.kubernetes.protobuf",
	"application/vnd.kubernetes.protobuf;q=0.1, application/json",
	"APPLICATION/JSON", "application/json;as=Table;v=v1;g=meta.k8s.io",
	"application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
	"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
	"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
	"application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
	"application/json;as=Foo;v=v1;g=meta.k8s.io",
	"application/json;as=PartialObjectMetadataList", "application/json;pretty=1", "application/yaml",
	"application/cbor", ",", ";", "application/json,,",
	"application/vnd.kubernetes.protobuf;type=x", "application/json;profile=nopeer", "image/webp,*/*;q=0.8",
}

// listVersion is the version of a list, which grows by itself, and continueToken a token that has it.
var (
	listVersion   = regexp.MustCompile(`("metadata": ?\{\s*"resourceVersion": ?"|metadata:\n  resourceVersion: ")\d+`)
	continueToken = regexp.MustCompile(`"continue":"[^"]*"`)
)

// TestOddRequests sends requests to the API server and to a replica in front of it, whose answers are the same.
func TestOddRequests(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	admin := kubernetes.NewForConfigOrDie(c.Config())
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "odd"}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"n": name}}}
		if _, err := admin.CoreV1().ConfigMaps("odd").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := startReplica(t, Options{Config: c.Config(), Resources: []string{"configmaps"}})
	user := serviceAccount(t, c.Config(), "reader", everything)
	direct, replica := askerOf(t, user), askerOf(t, r.config(user))
	compare := func(path, accept string) {
		t.Helper()
		if got, want := replica(path, accept), direct(path, accept); got != want {
			t.Errorf("%s (%s)\n got %.600q\nwant %.600q", path, accept, got, want)
		}
	}
	for _, path := range oddPaths {
		compare(path, "application/json")
	}
	const list = "/api/v1/namespaces/odd/configmaps"
	for _, query := range oddQueries {
		compare(list+"?"+query, "application/json")
	}
	for _, accept := range oddAccepts {
		compare(list+"?resourceVersion=0", accept)
		compare(list+"/a?resourceVersion=0", accept)
	}
	if n := r.counts.answered.Load(); n < int64(len(oddQueries)/4) {
		t.Errorf("only %d answers from memory", n)
	}
}

// askerOf returns a function that sends a GET and describes the answer.
func askerOf(t *testing.T, c *rest.Config) func(path, accept string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = time.Minute
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(path, accept string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Host+path, nil)
		if err != nil {
			return err.Error()
		}
		request.Header["Accept"] = []string{accept}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		text := continueToken.ReplaceAllString(listVersion.ReplaceAllString(string(body), "${1}1"), "")
		return fmt.Sprint(response.StatusCode, " ", response.Header.Get("Content-Type"), " ", err, " ", text)
	}
}
