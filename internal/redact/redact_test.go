package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const password = "hunter2-correct-horse"

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// secretWith is a Secret that contains the value everywhere a real one does.
func secretWith(value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{
			"name": "db", "namespace": "shop",
			"annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": `{"kind":"Secret","stringData":{"password":"` + value + `"}}`,
				"backup.example.com/plain":                         "password is " + value,
				"backup.example.com/encoded":                       encoded(value),
				"team":                                             "shop",
			},
			"managedFields": []any{map[string]any{"manager": "kubectl", "fieldsV1": map[string]any{"f:data": map[string]any{"f:password": map[string]any{}}}}},
		},
		"data":       map[string]any{"password": encoded(value), "user": encoded("admin")},
		"stringData": map[string]any{"password": value},
	}
}

func refuse(t *testing.T, what string, v any, values ...string) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range values {
		for _, form := range []string{value, encoded(value)} {
			if at := strings.Index(string(text), form); at >= 0 {
				t.Errorf("%s shows %q: …%s…", what, value, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}

func TestSecretsAreFoundWhereverTheyAre(t *testing.T) {
	bare := secretWith(password)
	delete(bare, "kind")
	objects := map[string]struct {
		resource schema.GroupResource
		object   map[string]any
	}{
		"secret":              {secrets, secretWith(password)},
		"kind missing":        {secrets, bare},
		"another resource":    {schema.GroupResource{Resource: "things"}, secretWith(password)},
		"list":                {schema.GroupResource{}, map[string]any{"kind": "List", "items": []any{secretWith(password)}}},
		"list without kinds":  {schema.GroupResource{}, map[string]any{"kind": "SecretList", "items": []any{bare}}},
		"list of lists":       {schema.GroupResource{}, map[string]any{"kind": "List", "items": []any{map[string]any{"kind": "List", "items": []any{secretWith(password)}}}}},
		"template":            {schema.GroupResource{Group: "x.io", Resource: "bundles"}, map[string]any{"spec": map[string]any{"objects": []any{[]any{secretWith(password)}}}}},
		"data is a string":    {secrets, map[string]any{"kind": "Secret", "data": password, "stringData": []any{password}}},
		"value is not a text": {secrets, map[string]any{"kind": "Secret", "data": map[string]any{"a": []any{password}, "b": map[string]any{"c": password}}}},
		"unknown field":       {secrets, map[string]any{"kind": "Secret", "data": map[string]any{"a": encoded(password)}, "copy": map[string]any{"l": []any{password, encoded(password)}}}},
	}
	for name, test := range objects {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(test.object)
			if err != nil {
				t.Fatal(err)
			}
			refuse(t, name, Object(test.resource, test.object), password)
			if after, _ := json.Marshal(test.object); string(before) != string(after) {
				t.Error("the input was written to")
			}
		})
	}
}

func TestWhatIsLeft(t *testing.T) {
	clean := Object(secrets, secretWith(password))
	data := clean["data"].(map[string]any)
	if data["password"] != "[redacted, 21 bytes]" || data["user"] != "[redacted, 5 bytes]" {
		t.Errorf("data %v", data)
	}
	metadata := clean["metadata"].(map[string]any)
	if metadata["name"] != "db" || metadata["annotations"].(map[string]any)["team"] != "shop" {
		t.Errorf("metadata %v", metadata)
	}
	if !reflect.DeepEqual(metadata["managedFields"], secretWith(password)["metadata"].(map[string]any)["managedFields"]) {
		t.Error("managed fields changed, and with them who made a change")
	}
	if Object(secrets, nil) != nil {
		t.Error("no object gave an object")
	}
}

func TestOtherObjectsStayAsTheyAre(t *testing.T) {
	object := map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": "b"}, "l": []any{map[string]any{"kind": "Pod"}}}
	clean := Object(schema.GroupResource{Resource: "configmaps"}, object)
	if reflect.ValueOf(clean).Pointer() != reflect.ValueOf(object).Pointer() {
		t.Error("an object without secrets was copied")
	}
}

func TestChangesAreMarked(t *testing.T) {
	before, after := secretWith(password), secretWith("hunter3-correct-horse")
	after["data"].(map[string]any)["new"] = encoded("fresh value")
	delete(after["data"].(map[string]any), "user")
	cleanBefore, cleanAfter := Pair(secrets, before, after)
	refuse(t, "difference", []any{cleanBefore, cleanAfter}, password, "hunter3-correct-horse", "fresh value", "admin")
	got, was, is := map[string]string{}, leaves("", cleanBefore), leaves("", cleanAfter)
	for path := range maps.Keys(merged(was, is)) {
		if was[path] != is[path] {
			got[path] = fmt.Sprint(was[path], " -> ", is[path])
		}
	}
	want := map[string]string{
		"data.password":       "[redacted, 21 bytes] -> [redacted, 21 bytes, changed]",
		"data.new":            " -> [redacted, 11 bytes]",
		"data.user":           "[redacted, 5 bytes] -> ",
		"stringData.password": "[redacted, 21 bytes] -> [redacted, 21 bytes, changed]",
		"metadata.annotations.backup.example.com/encoded":                       "[redacted, 28 bytes] -> [redacted, 28 bytes, changed]",
		"metadata.annotations.backup.example.com/plain":                         "[redacted, 33 bytes] -> [redacted, 33 bytes, changed]",
		"metadata.annotations.kubectl.kubernetes.io/last-applied-configuration": "[redacted, 67 bytes] -> [redacted, 67 bytes, changed]",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// leaves returns the leaves below v, by dotted path.
func leaves(path string, v any) map[string]string {
	m, ok := v.(map[string]any)
	if !ok {
		return map[string]string{path[1:]: fmt.Sprint(v)}
	}
	all := map[string]string{}
	for name, below := range m {
		maps.Copy(all, leaves(path+"."+name, below))
	}
	return all
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// TestListItemsAreComparedByName: an item that only moved in a list has not changed.
func TestListItemsAreComparedByName(t *testing.T) {
	other := secretWith("another value")
	other["metadata"].(map[string]any)["name"] = "other"
	list := func(items ...any) map[string]any { return map[string]any{"kind": "List", "items": items} }
	_, after := Pair(schema.GroupResource{}, list(secretWith(password), other), list(other, secretWith(password)))
	if text := fmt.Sprint(after); strings.Contains(text, "changed") {
		t.Errorf("marked as changed: %s", text)
	}
}

// TestEveryPositionOfAValue puts the value in random places of random trees that contain Secrets.
func TestEveryPositionOfAValue(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		before, after := nest(r, secretWith(password), 4), nest(r, secretWith(password+"!"), 4)
		cleanBefore, cleanAfter := Pair(schema.GroupResource{Resource: "things"}, before, after)
		refuse(t, fmt.Sprintf("seed %d", seed), []any{cleanBefore, cleanAfter}, password)
	}
}

func nest(r *rand.Rand, inner map[string]any, depth int) map[string]any {
	for range r.IntN(depth) {
		switch r.IntN(3) {
		case 0:
			inner = map[string]any{"spec": inner}
		case 1:
			inner = map[string]any{"kind": "List", "items": []any{"x", inner}}
		case 2:
			inner = map[string]any{"kind": "Bundle", "template": map[string]any{"list": []any{[]any{inner}}}}
		}
	}
	return inner
}

func TestError(t *testing.T) {
	broken := fmt.Errorf("decode: invalid character in %q", password)
	if text := Error(secrets, broken); strings.Contains(text, password) || !strings.Contains(text, "withheld") {
		t.Errorf("broken secret: %s", text)
	}
	if text := Error(schema.GroupResource{Resource: "pods"}, broken); text != `decode: invalid character in "…"` {
		t.Errorf("broken pod: %s", text)
	}
	forbidden := apierrors.NewForbidden(secrets, "", errors.New("no"))
	if text := Error(secrets, fmt.Errorf("secrets: %w", forbidden)); !strings.Contains(text, "forbidden") {
		t.Errorf("forbidden: %s", text)
	}
}

func TestDecoding(t *testing.T) {
	for text, want := range map[string]string{
		`invalid character '\x00' in string literal`:                            `invalid character '\x00' in string literal`,
		`invalid character ',' (expecting ':') within "/data/k/secret" after 5`: `invalid character ',' (expecting ':') within …`,
		`json: cannot unmarshal number -1.5e9 into Go value of type string`:     `json: cannot unmarshal number into Go value of type string`,
		`json: cannot unmarshal number into Go struct field Secret.data`:        `json: cannot unmarshal number into Go struct field Secret.data`,
		"Object 'Kind' is missing in '{}'":                                      "Object …",
		"in `x`":                                                                "in …",
	} {
		err := fmt.Errorf("%s%w", text, io.ErrUnexpectedEOF)
		clean := Decoding(err)
		if got, _ := strings.CutSuffix(clean.Error(), io.ErrUnexpectedEOF.Error()); got != want || !errors.Is(clean, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %s", text, clean)
		}
		for ; clean != nil; clean = errors.Unwrap(clean) {
			if want != text && strings.Contains(clean.Error(), text) {
				t.Errorf("%s: a wrapped error has it all", text)
			}
		}
	}
	if err, ok := errors.AsType[*fs.PathError](Decoding(&fs.PathError{Op: "read", Path: `"secret"`, Err: io.EOF})); !ok || err.Op != "read" {
		t.Error("the type of the error is lost")
	}
	if got := Decoding((*fs.PathError)(nil)).Error(); got != "the error, a *fs.PathError, panics" {
		t.Errorf("a nil pointer: %s", got)
	}
}

// TestRedactedAgain: what has been redacted and encoded, as in a recording, keeps its lengths.
func TestRedactedAgain(t *testing.T) {
	secret := func(value string) map[string]any {
		return map[string]any{"kind": "Secret",
			"data": map[string]any{"a": base64.StdEncoding.EncodeToString([]byte(value))}, "stringData": map[string]any{"b": value}}
	}
	before, after := Pair(secrets, secret("[redacted, 26 bytes]"), secret("[redacted, 52 bytes, changed]"))
	for field, part := range map[string]string{"data": "a", "stringData": "b"} {
		if got := before[field].(map[string]any)[part]; got != "[redacted, 26 bytes]" {
			t.Errorf("before: %v", got)
		}
		if got := after[field].(map[string]any)[part]; got != "[redacted, 52 bytes, changed]" {
			t.Errorf("after: %v", got)
		}
	}
}

// TestNext: what is common to a state and one that has nothing to redact is not searched again, unless it became part
// of a Secret; the result is the same.
func TestNext(t *testing.T) {
	shared := map[string]any{"a": "aHVudGVy", "list": []any{map[string]any{"b": "x"}}}
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for name, after := range map[string]map[string]any{
		"another field": {"kind": "Widget", "data": shared, "n": int64(1)},
		"a Secret":      {"kind": "Secret", "data": shared},
		"a nested Secret": {"kind": "Widget", "data": shared,
			"template": map[string]any{"kind": "Secret", "data": shared}},
		"stringData":       {"kind": "Widget", "stringData": shared, "data": shared},
		"a list of Secret": {"kind": "SecretList", "items": []any{shared}},
		"a text":           {"kind": "Widget", "data": shared, "text": "kind: Secret\nstringData: {a: hunter2}\n"},
	} {
		before := map[string]any{"kind": "Widget", "data": shared, "items": []any{shared}}
		if _, _, nothing := Next(widgets, nil, before, false); !nothing {
			t.Fatal("there is something to redact before")
		}
		wantBefore, wantAfter := Pair(widgets, before, after)
		gotBefore, gotAfter, nothing := Next(widgets, before, after, true)
		if !reflect.DeepEqual(gotBefore, wantBefore) || !reflect.DeepEqual(gotAfter, wantAfter) {
			t.Errorf("%s: %v and %v, want %v and %v", name, gotBefore, gotAfter, wantBefore, wantAfter)
		}
		if nothing != (name == "another field") {
			t.Errorf("%s: nothing to redact: %t", name, nothing)
		}
	}
}
