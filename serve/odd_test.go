package serve

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/protocol"
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
	"/api/v1/watch/namespaces/odd/configmaps?timeoutSeconds=5&resourceVersion=0",
	"/api/v1/watch/namespaces/odd/configmaps/a?timeoutSeconds=5&resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a?watch=true&timeoutSeconds=5&resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&limit=1",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=-1",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=x",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=18446744073709551616",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&resourceVersionMatch=Exact",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&resourceVersion=999999999",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=00",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&fieldValidation=Strict",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&resourceVersionMatch=NotOlderThan",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&pretty=",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&watch=false",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&fieldSelector=metadata.name%3Db",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=0&timeout=1s",
	"/api/v1/namespaces/odd/configmaps/a?", "/api/v1/namespaces/odd/configmaps/?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/%20?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a%00?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/%2e?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/%2e%2e?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a%0Ab?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/%25?resourceVersion=0",
	"/api/v1/namespaces/%20/configmaps?resourceVersion=0", "/api/v1/namespaces/o%0Ad/configmaps?resourceVersion=0",
	"/api/v1/namespaces/%2A/configmaps?resourceVersion=0", "/api/v1/namespaces/odd%2Fconfigmaps?resourceVersion=0",
	"/api/v1/configmaps/a?resourceVersion=0",
	"/api/v1/namespaces/status/configmaps?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/status?resourceVersion=0",
	"/apis/v1/namespaces/odd/configmaps?resourceVersion=0", "/api/v2/namespaces/odd/configmaps?resourceVersion=0",
	"/apis//v1/namespaces/odd/configmaps?resourceVersion=0", "//api/v1/namespaces/odd/configmaps?resourceVersion=0",
	"/./api/v1/namespaces/odd/configmaps?resourceVersion=0",
	"/api/v1/proxy/namespaces/odd/configmaps/a?resourceVersion=0",
	"/api/v1/namespaces/odd/configmaps/a?resourceVersion=%2B1",
	"/api/v1/configmaps?limit=1&fieldSelector=metadata.namespace%3Dodd",
	"/api/v1/configmaps?limit=1&resourceVersion=00&resourceVersionMatch=NotOlderThan" +
		"&fieldSelector=metadata.namespace%3Dodd",
	"/api/v1/configmaps?limit=1&fieldSelector=metadata.namespace%3Dodd,metadata.name%3Da",
	"/api/v1/configmaps?limit=1&fieldSelector=metadata.namespace%3D..",
}

// oddQueries are of lists.
var oddQueries = []string{
	"timeoutSeconds=5&watch", "watch=false", "watch=0", "timeoutSeconds=5&watch=no",
	"timeoutSeconds=5&watch=", "limit=-1", "limit=abc", "limit=0", "limit=", "limit=1e1", "Limit=1",
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
	"watch=true&timeoutSeconds=5&resourceVersion=0", "watch=1&timeoutSeconds=5&resourceVersion=0&limit=1",
	"watch=true&timeoutSeconds=5&resourceVersion=0&continue=x", "watch=true&timeoutSeconds=5&resourceVersion=x",
	"watch=true&timeoutSeconds=5&resourceVersion=0&resourceVersionMatch=NotOlderThan",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=Exact",
	"watch=true&timeoutSeconds=5&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
	"watch=true&timeoutSeconds=5&resourceVersion=0&fieldSelector=metadata.name%3Da",
	"watch=true&timeoutSeconds=5&resourceVersion=0&labelSelector=n%20in%20(a,b)",
	"watch=true&watch=false&timeoutSeconds=5&resourceVersion=0",
	"watch=false&watch=true&timeoutSeconds=5&resourceVersion=0",
	"watch=yes&timeoutSeconds=5&resourceVersion=0", "watch=True&timeoutSeconds=5&resourceVersion=0",
	"watch=TRUE&timeoutSeconds=5&resourceVersion=0", "watch=t&timeoutSeconds=5&resourceVersion=0",
	"watch=%20&timeoutSeconds=5&resourceVersion=0", "Watch=true&resourceVersion=0",
	"watch=true&timeoutSeconds=x&resourceVersion=0",
	"watch=true&timeoutSeconds=1.5&resourceVersion=0", "watch=true&timeoutSeconds=5&timeoutSeconds=2&resourceVersion=0",
	"watch=true&timeoutSeconds=5&resourceVersion=0&limit=-1", "watch=true&timeoutSeconds=5&resourceVersion=0&limit=x",
	"watch=true&timeoutSeconds=5&resourceVersion=0&pretty=true",
	"watch=true&timeoutSeconds=5&resourceVersion=0&timeout=x",
	"watch=true&timeoutSeconds=5&resourceVersion=0&fieldSelector=data.x%3D1",
	"watch=true&timeoutSeconds=5&resourceVersion=0&resourceVersionMatch=Exact",
	"watch=true&timeoutSeconds=5&resourceVersionMatch=x",
	"watch=true&timeoutSeconds=5&sendInitialEvents=x&resourceVersionMatch=NotOlderThan",
	"watch=true&timeoutSeconds=5&sendInitialEvents=&resourceVersionMatch=NotOlderThan",
	"watch=true&timeoutSeconds=5&sendInitialEvents=false",
	"watch=true&timeoutSeconds=5&sendInitialEvents=false&resourceVersion=0",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=x",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=-1",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&limit=1",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
	"watch=true&timeoutSeconds=5&sendInitialEvents=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
	"sendInitialEvents=false", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
	"resourceVersion=0&resourceVersionMatch=", "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
	"resourceVersion=0&resourceVersionMatch=NotOlderThan&continue=x", "resourceVersion=0&resourceVersionMatch=exact",
	"resourceVersion=0&resourceVersionMatch=NotOlderThan&resourceVersionMatch=NotOlderThan",
	"resourceVersion=-0", "resourceVersion=1.0", "resourceVersion=%EF%BC%90", "resourceVersion=9223372036854775808",
	"resourceVersion=0&limit=9223372036854775807", "resourceVersion=0&limit=9223372036854775808",
	"resourceVersion=0&limit=-9223372036854775808", "resourceVersion=0&limit=1&limit=1",
	"resourceVersion=0&timeoutSeconds=9223372036854775808", "resourceVersion=0&timeout=-1s",
	"resourceVersion=0&timeout=0",
	"resourceVersion=0&timeout=", "resourceVersion=0&timeout=1s&timeout=2s", "resourceVersion=0&fieldValidation=Strict",
	"resourceVersion=0&pretty", "resourceVersion=0&pretty=1&pretty=0", "resourceVersion=0&labelSelector=n%3Da%00",
	"resourceVersion=0&fieldSelector=metadata.name%3Da%2Fb", "resourceVersion=0&fieldSelector=metadata.name%3D..",
	"resourceVersion=0&fieldSelector=metadata.name%3D%5C,a", "resourceVersion=0&fieldSelector=METADATA.NAME%3Da",
	"resourceVersion=0&fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db",
	"resourceVersion=0&fieldSelector=name%3Da", "resourceVersion=0&fieldSelector=%3Da", "?resourceVersion=0",
	"resourceVersion=0#fragment", "resourceVersion=0;limit=1", "resourceVersion=0&limit=1;continue=x",
	"resource%56ersion=0",
	"resourceVersion=0&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0",
	"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTIyMzM3MjAzNjg1NDc3NTgwNywic3RhcnQiOiJhXHUwMDAwIn0",
	"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
}

// oddMethods are those of requests for a list and an object, besides GET.
var oddMethods = []string{http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "get"}

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
	continueToken = regexp.MustCompile(`"continue":"([^"]+)"`)
	// currentVersion is in the error for a version that does not exist yet.
	currentVersion = regexp.MustCompile(`current: \d+`)
	// tableAge is the column of a table with the time since an object was created.
	tableAge = regexp.MustCompile(`("cells":\["[^"]*",\d+,)"[^"]*"`)
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
	var work sync.WaitGroup
	atOnce := make(chan struct{}, 24) // most are watches of five seconds, which is long enough for a busy machine
	compare := func(method, path, accept string) {
		atOnce <- struct{}{}
		work.Go(func() {
			defer func() { <-atOnce }()
			if got, want := replica.ask(t, method, path, accept), direct.ask(t, method, path, accept); got != want {
				t.Errorf("%s %s (%s)\n got %.600q\nwant %.600q", method, path, accept, got, want)
			}
		})
	}
	const list, json = "/api/v1/namespaces/odd/configmaps", "application/json"
	for _, path := range oddPaths {
		compare(http.MethodGet, path, json)
	}
	for _, query := range oddQueries {
		compare(http.MethodGet, list+"?"+query, json)
	}
	for _, path := range []string{list + "?resourceVersion=0", list + "/a?resourceVersion=0"} {
		for _, method := range oddMethods {
			compare(method, path, json)
		}
		for _, accept := range oddAccepts {
			compare(http.MethodGet, path, accept)
		}
	}
	work.Wait()
	for _, query := range []string{"", "&resourceVersion=0", "&resourceVersion=1"} {
		path := list + "?watch=true&timeoutSeconds=5&allowWatchBookmarks=true" + query
		got := strings.Contains(replica.ask(t, http.MethodGet, path, json), metav1.InitialEventsAnnotationKey)
		want := strings.Contains(direct.ask(t, http.MethodGet, path, json), metav1.InitialEventsAnnotationKey)
		if got != want {
			t.Errorf("%s: the end of the initial events is said: %t, want %t", path, got, want)
		}
	}
	if n := r.counts.answered.Load(); n < int64(len(oddQueries)/4) {
		t.Errorf("only %d answers from memory", n)
	}
}

// startOf returns where a page goes on, of a token whose version may be another one.
func startOf(continued string) string {
	token, err := protocol.ParseToken(continueToken.FindStringSubmatch(continued)[1])
	return fmt.Sprintf("next page: %q, %v", token.Start, err)
}

// asker sends requests as they are.
type asker struct {
	client *http.Client
	host   string
}

func askerOf(t *testing.T, c *rest.Config) asker {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = time.Minute
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return asker{client, c.Host}
}

// ask sends a request and describes the answer.
func (a asker) ask(t *testing.T, method, path, accept string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, a.host+path, nil)
	if err != nil {
		return err.Error()
	}
	request.Header["Accept"] = []string{accept}
	response, err := a.client.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	text := continueToken.ReplaceAllStringFunc(listVersion.ReplaceAllString(string(body), "${1}1"), startOf)
	text = currentVersion.ReplaceAllString(tableAge.ReplaceAllString(text, "${1}age"), "current: 1")
	return fmt.Sprint(response.StatusCode, " ", response.Header.Get("Content-Type"), " ", err, " ", text)
}

// TestWebSocketWatch watches as browsers do, whose answers are the API server's.
func TestWebSocketWatch(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	r := startReplica(t, Options{Config: c.Config(), Resources: []string{"namespaces"}})
	user := serviceAccount(t, c.Config(), "reader", everything)
	const path = "/api/v1/namespaces?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Ddefault"
	if got, want := firstFrame(t, r.config(user), path), firstFrame(t, user, path); got != want ||
		!strings.Contains(got, `{"type":"ADDED"`) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// firstFrame returns the first frame of a WebSocket.
func firstFrame(t *testing.T, c *rest.Config, path string) string {
	t.Helper()
	c = rest.CopyConfig(c)
	c.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Origin": {"https://example.com"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return response.Status
	}
	frame := bufio.NewReader(response.Body)
	var head struct{ Kind, Size uint8 }
	err = binary.Read(frame, binary.BigEndian, &head)
	size := uint16(head.Size)
	if err == nil && head.Size == 126 { // the size follows
		err = binary.Read(frame, binary.BigEndian, &size)
	}
	text := make([]byte, size)
	if err == nil {
		_, err = io.ReadFull(frame, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
