package json

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
)

// pieces reads text in random pieces.
type pieces struct {
	r    *rand.Rand
	text []byte
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(to[:min(len(to), p.r.IntN(200))], p.text)
	p.text = p.text[n:]
	return n, nil
}

func readEvents(src io.Reader, limit int) (events []string, err error) {
	r := NewEventReader(src, limit)
	for {
		kind, object, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, kind+" "+string(object))
	}
}

func TestEventsInPieces(t *testing.T) {
	seed := testseed.Seed(t)
	docs := newDocuments(seed)
	var text bytes.Buffer
	var want []string
	for i := range 300 {
		kind := []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "NEW"}[i%6]
		object := docs.seeds[i%len(docs.seeds)]
		if i%3 == 0 {
			object = []byte(fmt.Sprintf(`{"a":"%s\\\"","b":[{"}":"]"}]}`, strings.Repeat(`\\`, i)))
		}
		fmt.Fprintf(&text, "%s{%s\"type\":%q,\"object\":%s}", docs.space(), docs.space(), kind, object)
		want = append(want, kind+" "+string(object))
	}
	for name, src := range map[string]io.Reader{
		"whole": bytes.NewReader(text.Bytes()), "bytes": iotest.OneByteReader(bytes.NewReader(text.Bytes())),
		"pieces": &pieces{r: docs.r, text: text.Bytes()}, "last with EOF": iotest.DataErrReader(bytes.NewReader(text.Bytes())),
	} {
		got, err := readEvents(src, 0)
		if err != io.EOF || !slices.Equal(got, want) {
			t.Errorf("%s: got %d of %d events, error %v", name, len(got), len(want), err)
		}
	}
}

func TestEventErrors(t *testing.T) {
	const event = `{"type":"ADDED","object":{"a":1}}`
	for _, test := range []struct {
		text string
		want string // part of the error
		more bool   // the stream continues
	}{
		{``, "EOF", false},
		{event + "\n", "EOF", false},
		{event + `{"type":"ADDED"`, "after 1 events: unexpected EOF", false},
		{`{"type":"ADDED","object":{"a":"}}`, "unexpected EOF", false},
		{`<html>`, "is this a stream of JSON?", false},
		{event + `]`, "is this a stream of JSON?", false},
		{`{"type":"ADDED","object":{"a":"` + strings.Repeat("x", 1000) + `"}}`, "raise Scope.MaxObjectBytes", false},
		{`{"kind":"Status","status":"Failure","message":"the server is tired","code":503}`, "the server is tired", false},
		{`{}`, "it has no type", true},
		{`{"type":"ADDED"}`, "it has no object", true},
		{`{"type":"ADDED","object":null}`, "it has no object", true},
		{`{"type":5,"object":{}}`, "it has no type", true},
		{`{"type":"AD` + "\x01" + `","object":{}}`, "malformed", true},
		{`{"type":"ADDED" "object":{}}`, "malformed", true},
		{`{:1,"type":"ADDED","object":{}}`, "malformed", true},
		{`{"type":,"object":{}}`, "malformed", true},
		{`{"type":"ADDED","object":}`, "malformed", true},
		{`{"type":"ADDED","object":{},}`, "malformed", true},
		{`{"type":"ADDED","object":{}]`, "malformed", true},
		{`{"type":"ADDED","object":{},"x":truf}`, "malformed", true},
	} {
		r := NewEventReader(strings.NewReader(test.text+event), 500)
		if !test.more {
			r = NewEventReader(strings.NewReader(test.text), 500)
		}
		kind, _, err := r.Next()
		for err == nil {
			kind, _, err = r.Next()
		}
		if kind != "" || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrEvent) != test.more {
			t.Errorf("read %.80q: error is %v, want %q", test.text, err, test.want)
		}
		kind, _, again := r.Next()
		if test.more && (again != nil || kind != "ADDED") {
			t.Errorf("read %.80q: the event behind it gives %q, %v", test.text, kind, again)
		}
		if !test.more && again != err {
			t.Errorf("read %.80q: the error %v became %v", test.text, err, again)
		}
	}
}

func TestEventErrorTypes(t *testing.T) {
	_, err := readEvents(strings.NewReader(`{"type":"ADDED","object":{"a":"too long for this"}}`), 20)
	if limit, ok := errors.AsType[*LimitError](err); !ok || limit.Limit != 20 {
		t.Errorf("an event over the limit gives %v", err)
	}
	_, err = readEvents(strings.NewReader(`{"kind":"Status","code":410,"reason":"Expired","message":"old"}`), 0)
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a Status gives %v", err)
	}
	broken := errors.New("connection is broken")
	_, err = readEvents(io.MultiReader(strings.NewReader(`{"type":`), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) {
		t.Errorf("a broken connection gives %v", err)
	}
	_, err = readEvents(stuck{}, 0)
	if !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that never returns anything gives %v", err)
	}
}

// once returns an error together with data, and no error afterwards.
type once struct {
	data string
	err  error
}

func (o *once) Read(p []byte) (int, error) {
	n, err := copy(p, o.data), o.err
	o.data, o.err = "", nil
	return n, err
}

// TestErrorsBesideData: an error returned with data ends the stream after the data.
func TestErrorsBesideData(t *testing.T) {
	const event = `{"type":"ADDED","object":{"a":1}}`
	broken := errors.New("connection is broken")
	if events, err := readEvents(&once{event + "{", broken}, 0); len(events) != 1 || !errors.Is(err, broken) {
		t.Errorf("%d events, %v", len(events), err)
	}
	for limit, n := range map[int]int{1: 0, 2: 0, len(event) - 1: 0, len(event): 1, 0: 1, -1: 1} {
		if events, _ := readEvents(strings.NewReader(event), limit); len(events) != n {
			t.Errorf("limit %d: %d events, want %d", limit, len(events), n)
		}
	}
}

// TestListsThatBreakBehind: a list followed by garbage is not a list.
func TestListsThatBreakBehind(t *testing.T) {
	broken := errors.New("connection is broken")
	items, _, err := readList(io.MultiReader(strings.NewReader(`{"items":[{}]}`), iotest.ErrReader(broken)), 0)
	if len(items) != 1 || !errors.Is(err, broken) {
		t.Errorf("%d items, %v", len(items), err)
	}
}

// TestExtents finds the ends of values, at once and incrementally.
func TestExtents(t *testing.T) {
	random := testseed.Rand(t)
	docs := newDocuments(random.Uint64())
	values := []string{`""`, `"\\"`, `"\""`, `"\\\\"`, `"\\\""`, `"a\\\\\\"`, `{"a\\":"\\"}`, `["\\","\"]"]`, `{"{":"}"}`, `[[],{}]`, "5", "true", "-1e5"}
	for range 300 {
		if text := strings.Trim(string(docs.next()), " \t\r\n"); isValid([]byte(text)) {
			values = append(values, text)
		}
	}
	for _, value := range values {
		text := []byte(value + ` "`)
		if end, ok := new(extent).find(text); end != len(value) || !ok {
			t.Errorf("%q ends at %d, %t", value, end, ok)
		}
		var e extent
		for to := 0; ; to = min(len(text), to+1+random.IntN(1+len(text)/10)) {
			end, ok := e.find(text[:to])
			if ok != (to > len(value) || to == len(value) && strings.ContainsAny(value[:1], `{["`)) || ok && end != len(value) {
				t.Fatalf("%q ends at %d, %t, with %d bytes there", value, end, ok, to)
			}
			if ok {
				break
			}
		}
	}
}

func TestItemKind(t *testing.T) {
	for kind, want := range map[string]string{"PodList": "v1 Pod", "List": " ", "Pod": " ", "": " ", "ListList": "v1 List"} {
		head := ListHead{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
		if version, item := head.ItemKind(); version+" "+item != want {
			t.Errorf("%s has items of %s %s, want %s", kind, version, item, want)
		}
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestEventsBuffered(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	r := NewEventReader(in, 0)
	if r.Buffered() {
		t.Error("an event is there before the first was sent")
	}
	space := strings.Repeat(" ", quietBuffer) // every event of an API server is longer
	go func() {
		fmt.Fprint(out, `{"type":"ADDED",`+space+`"object":{"n":1}} {"type":"ADDED","object":{"n":2}} {"type":"ADDED","obj`)
		fmt.Fprint(out, `ect":{"n":3}}`)
		out.Close()
	}()
	for n, want := range []bool{true, false, false} {
		_, object, err := r.Next()
		if err != nil || string(object) != fmt.Sprintf(`{"n":%d}`, n+1) {
			t.Fatalf("event %d is %s, %v", n+1, object, err)
		}
		if got := r.Buffered(); got != want {
			t.Errorf("behind event %d another is there: %v, want %v", n+1, got, want)
		}
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Errorf("the end is %v", err)
	}
}

// One large event must not keep its buffer alive forever.
func TestEventBufferShrinks(t *testing.T) {
	var text bytes.Buffer
	fmt.Fprintf(&text, `{"type":"ADDED","object":{"a":"%s"}}`, strings.Repeat("x", 8<<20))
	for range 3000 {
		fmt.Fprintf(&text, `{"type":"ADDED","object":{"a":"%s"}}`, strings.Repeat("x", 1000))
	}
	r := NewEventReader(&text, 0)
	for {
		if _, _, err := r.Next(); err != nil {
			break
		}
	}
	if size := cap(r.stream.buf); size > keepBuffer {
		t.Errorf("the buffer still has %d bytes", size)
	}
}

func readList(src io.Reader, limit int) (items []string, head ListHead, err error) {
	r := NewListReader(src, limit)
	for {
		item, err := r.Next()
		if err != nil {
			return items, r.Head(), err
		}
		items = append(items, string(item))
	}
}

func TestListInAnyOrder(t *testing.T) {
	members := []string{
		`"kind":"PodList"`, `"apiVersion":"v1"`, `"items":[{"a":1}, {"b":"]}"},{"c":[{}]}]`, `"x":["unknown",{"items":[1]}]`,
		`"metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":5,"shardInfo":{"selector":"s"}}`,
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		text := " {" + strings.Join(members, " ,\n") + "} \n"
		items, head, err := readList(&pieces{r: r, text: []byte(text)}, 0)
		if err != io.EOF || !slices.Equal(items, []string{`{"a":1}`, `{"b":"]}"}`, `{"c":[{}]}`}) {
			t.Fatalf("list %s: items %q, error %v", text, items, err)
		}
		version, kind := head.ItemKind()
		if version != "v1" || kind != "Pod" || head.ResourceVersion != "7" || head.Continue != "next" ||
			*head.RemainingItemCount != 5 || head.ShardInfo.Selector != "s" {
			t.Fatalf("list %s: head is %+v", text, head)
		}
	}
}

func TestListHeadIsKnownWithTheFirstItem(t *testing.T) {
	r := NewListReader(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{}]}`), 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if head := r.Head(); head.Kind != "PodList" || head.ResourceVersion != "7" {
		t.Errorf("head is %+v", head)
	}
}

func TestListErrors(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for text, want := range map[string]string{
		``:                                 "unexpected EOF",
		`{`:                                "unexpected EOF",
		`{"items":[{}`:                     "after 1 items: unexpected EOF",
		`{"items":[{"a`:                    "after 0 items: unexpected EOF",
		`{"items":[{}]`:                    "unexpected EOF",
		`{"items":[]}`:                     "EOF",
		`{"items":null}`:                   "EOF",
		`{"kind":"PodList"}`:               "it has no items",
		`{"items":{}}`:                     "instead of an array",
		`{"items":[null]}`:                 "item 0 is a value of 4 bytes instead of an object",
		`{"items":[{},5]}`:                 "item 1 is",
		`{"items":[{},]}`:                  "where a value belongs",
		`{"items":[{} {}]}`:                "malformed",
		`{"items":[{}],}`:                  "where a value belongs",
		`{"items":[{}]}x`:                  "behind the list",
		`{"items":[],"items":[]}`:          "items twice",
		`{"\u0069tems":[],"items":1}`:      "items twice",
		`{"items"[]}`:                      "got '[' where ':' belongs",
		`{"items" "a":5}`:                  `got '"' where ':' belongs`,
		`{"b":1,"a":"` + long + `"}`:       "list is larger",
		`{"b":1,"a":"x`:                    "unexpected EOF",
		`{5:[]}`:                           "where a name belongs",
		`{"a\x":5}`:                        "where a name belongs",
		`[]`:                               "malformed",
		`not found`:                        "malformed",
		`{"a":tru,"items":[]}`:             "invalid",
		`{"metadata":5,"items":[]}`:        "cannot unmarshal",
		`{"items":[{"a":"` + long + `"}]}`: "list item is larger than the limit of 500 bytes; raise Scope.MaxObjectBytes",
		`{"a":"` + long + `"}`:             "list is larger",
		`{` + strings.Repeat(`"a":"bcdefghijk",`, 60):                   "list without its items is larger",
		`{"kind":"Status","message":"the server is tired","code":503}`:  "the server is tired",
		`{"message":"the server is tired","kind":"Status","code":503} `: "the server is tired",
	} {
		_, _, err := readList(strings.NewReader(text), 500)
		if !strings.Contains(err.Error(), want) || (want == "EOF") != (err == io.EOF) {
			t.Errorf("read %.80q: error is %v, want %q", text, err, want)
		}
	}
}
