package filter

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Flags returns the flags that the filter was compiled from.
func (f *Filter) Flags() Flags { return f.flags }

// With returns a filter of other flags, which has hidden nothing yet.
func (f *Filter) With(flags Flags) (*Filter, error) { return flags.Compile(f.print) }

// Parse parses flags that were typed in one line, with quotes as for a shell.
func Parse(line string) (Flags, error) {
	words, err := split(line)
	if err != nil {
		return Flags{}, err
	}
	var f Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	f.Bind(set)
	if err := set.Parse(words); err != nil {
		return Flags{}, err
	}
	if set.NArg() > 0 {
		return Flags{}, fmt.Errorf("%q is no flag; want --changes, --path, --ignore, --manager, --op, --grep, --where or --all", set.Arg(0))
	}
	return f, nil
}

// String returns the flags as Parse reads them, "" for none.
func (f Flags) String() string {
	var words []string
	add := func(flag string, values ...string) {
		if text := strings.Join(values, ","); text != "" {
			words = append(words, flag, quote(text))
		}
	}
	add("--changes", f.Sections...)
	add("--path", f.Paths...)
	add("--ignore", f.Ignore...)
	add("--manager", f.Managers...)
	add("--op", f.Ops...)
	add("--grep", f.Text)
	add("--where", f.Where)
	if f.All {
		words = append(words, "--all")
	}
	return strings.Join(words, " ")
}

// quote puts a word into quotes if it needs them.
func quote(word string) string {
	if !strings.ContainsAny(word, " \t'\"\\*?[]<>|&;()$`!#") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var errQuote = errors.New("a quote is not closed")

// split splits a line into words. What is between quotes, or behind a backslash outside of them, is kept as it is.
func split(line string) (words []string, err error) {
	var word strings.Builder
	inWord, open := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case open != 0 && r == open:
			open = 0
		case open != 0:
			word.WriteRune(r)
		case r == '\\':
			inWord, escaped = true, true
		case r == '\'' || r == '"':
			inWord, open = true, r
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if open != 0 || escaped {
		return nil, errQuote
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
