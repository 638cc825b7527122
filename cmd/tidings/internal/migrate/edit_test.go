package migrate

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestLineEndsAreKept changes a file with lines that end in CRLF, one that is not formatted either,
// and one with lines of both kinds.
func TestLineEndsAreKept(t *testing.T) {
	for before, want := range map[string]string{
		"package a\r\n\r\nimport \"old\"\r\n\r\nvar a = struct{ A, Long int }{\r\n\tA: 1,\r\n}\r\n": "package a\r\n\r\nimport \"new\"\r\n\r\nvar a = struct{ A, Long int }{\r\n\tA:    1,\r\n\tLong: 2,\r\n}\r\n",
		"package a\r\nimport \"old\"\r\nvar a = T{\r\n}\r\n":                                        "package a\r\nimport \"new\"\r\nvar a = T{\r\nLong: 2,\r\n}\r\n",
		"package a\r\n\nimport \"old\"\n\nvar a = T{\n}\r\n":                                        "package a\r\n\nimport \"new\"\n\nvar a = T{\nLong: 2,\n}\r\n",
	} {
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, "a.go", before, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := fset.File(syntax.FileStart).Pos(strings.LastIndex(before, "}"))
		path := syntax.Imports[0].Path
		got, err := apply([]byte(before), []edit{{from: at, to: at, text: "Long: 2,\n"}, {from: path.Pos(), to: path.End(), text: `"new"`}}, fset)
		if err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
