package filter

import (
	"strings"
	"testing"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// scaled is a deployment scaled from 2 to 5, and a field that is a float.
func scaled() news.Event {
	e := modified("Deployment", "spec.replicas")
	e.Changes[0].Old, e.Changes[0].New, e.Changes[0].By = int64(2), int64(5), diff.Manager{Name: "autoscaler"}
	e.Before = map[string]any{"spec": map[string]any{"replicas": int64(2), "factor": 0.5}}
	e.After = map[string]any{"spec": map[string]any{"replicas": int64(5), "factor": 1.5, "tags": []any{"a", "b"}}, "status": nil}
	return e
}

func TestWhere(t *testing.T) {
	deleted := scaled()
	deleted.Type, deleted.After, deleted.Changes = news.Deleted, nil, nil
	for expression, c := range map[string]struct {
		event news.Event
		want  bool
	}{
		"new.spec.replicas > old.spec.replicas":                           {scaled(), true},
		"new.spec.replicas < old.spec.replicas":                           {scaled(), false},
		"new.spec.factor > 1 && old.spec.factor < 1":                      {scaled(), true},
		`"b" in new.spec.tags`:                                            {scaled(), true},
		"new.status == null":                                              {scaled(), true},
		`change.fields.exists(f, f.path == "spec.replicas" && f.new==5)`:  {scaled(), true},
		`change.fields.exists(f, f.manager.startsWith("auto"))`:           {scaled(), true},
		`change.type == "MODIFIED" && change.kind == "Deployment"`:        {scaled(), true},
		`change.type == "DELETED" && new == null && old.spec.replicas==2`: {deleted, true},
		"has(new.spec.paused) && new.spec.paused":                         {scaled(), false},
		"new.?spec.?paused.orValue(true)":                                 {scaled(), true},
	} {
		f, err := Flags{Where: expression}.Compile(news.Text{}.Event)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := f.Apply(&c.event); got != c.want {
			t.Errorf("%s: %v; %s", expression, got, f.Hidden())
		}
		if f.where.failed > 0 {
			t.Errorf("%s: %s", expression, f.where.first)
		}
	}
}

// The condition sees the whole change, whatever the other flags leave of it.
func TestWhereBeforeOtherFilters(t *testing.T) {
	f, err := Flags{Where: `change.fields.exists(f, f.path == "spec.a")`, Sections: []string{"status"}}.Compile(news.Text{}.Event)
	if err != nil {
		t.Fatal(err)
	}
	e := modified("Pod", "spec.a", "status.b")
	if !f.Apply(&e) || len(e.Changes) != 1 || e.Changes[0].Path.String() != "status.b" {
		t.Errorf("left %v", e.Changes)
	}
}

// A condition without a value, because a field is missing or has another type, does not hold, and is counted.
func TestWhereWithoutValue(t *testing.T) {
	for expression, want := range map[string]string{
		"new.spec.missing > 3":     "1 did not match the filters; --where has no value for 1 of them (first: no such key: missing)",
		"new.spec.replicas == old": "1 did not match the filters",
		"new.spec":                 "1 did not match the filters; --where has no value for 1 of them (first: the result is of type map(dyn, dyn))",
	} {
		f, err := Flags{Where: expression}.Compile(news.Text{}.Event)
		if err != nil {
			t.Fatal(err)
		}
		e := scaled()
		if f.Apply(&e) {
			t.Errorf("%s holds", expression)
		}
		if got := f.Hidden(); got != want {
			t.Errorf("%s: %s", expression, got)
		}
	}
}

func TestWrongWhere(t *testing.T) {
	for expression, want := range map[string]string{
		"spec.replicas > 3": "--where, column 1: undeclared reference to 'spec'; the variables are old, new and change, and texts are in quotes\n" +
			"    spec.replicas > 3\n    ^",
		"new.spec.replicas >": "--where, column 20: Syntax error",
		"1 + 2":               "the result of 1 + 2 is of type int; want a condition",
		"true &&\n  nope":     "--where, line 2, column 3: undeclared reference to 'nope'",
		"nope(new)":           "column 5: undeclared reference to 'nope'",
	} {
		_, err := Flags{Where: expression}.Compile(nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}
