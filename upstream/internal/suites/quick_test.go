package suites

import (
	"slices"
	"strings"
	"testing"
)

func TestNotQuickIsComplete(t *testing.T) {
	for name, tests := range notQuick {
		if !slices.Contains(quickPackages, name) {
			t.Errorf("%s has no quick part", name)
		}
		for _, slow := range tests {
			if !isTest(slow.Test) || slow.Because == "" {
				t.Errorf("%s: it has to name a test and say why: %+v", name, slow)
			}
		}
	}
	for _, name := range quickPackages {
		if !slices.Contains(replacedByUs, name) && !slices.Contains(usingReplaced, name) {
			t.Errorf("client-go's suite has no package %s", name)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		names []string
		quick bool
		want  string
	}{
		{nil, false, "client-go controller-runtime kubernetes"},
		{nil, true, "client-go"},
		{[]string{"kubernetes", "client-go"}, false, "kubernetes client-go"},
		{[]string{"client-go"}, true, "client-go"},
		{[]string{"kubernetes"}, true, `suite "kubernetes" has no quick part; run it without --quick`},
		{[]string{"else"}, false, `there is no suite "else"`},
	} {
		chosen, err := Named(c.names, c.quick)
		var names []string
		for _, s := range chosen {
			names = append(names, s.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Named(%q, %v): got %s, want %s", c.names, c.quick, got, c.want)
		}
	}
}

// TestLeftOut: a test that is left out does not run, and one that does not exist is an error.
func TestLeftOut(t *testing.T) {
	module := t.TempDir()
	writeFiles(t, module, map[string]string{
		"go.mod":      "module example.test\n\ngo 1.26\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {}\n\nfunc TestTwo(t *testing.T) { t.Error(\"it runs\") }\n",
	})
	var o Options
	p := testPackage{name: "a", path: "./a", module: module, folder: module, leftOut: []string{"TestTwo"}}
	binary, err := o.build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := o.list(t.Context(), binary, p)
	if err != nil || !slices.Equal(tests, []string{"TestOne"}) {
		t.Errorf("got %q, %v", tests, err)
	}
	p.leftOut = []string{"TestThree"}
	if _, err := o.list(t.Context(), binary, p); err == nil || !strings.Contains(err.Error(), "a has no TestThree") {
		t.Errorf("got %v", err)
	}
}
