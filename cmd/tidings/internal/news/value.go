package news

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// encode returns v as compact JSON, without the HTML escapes of encoding/json, and with escapes for
// everything that a terminal would interpret instead of displaying.
func encode(v any) []byte {
	if s, ok := v.(string); ok && cli.IsPlain(s) && !strings.ContainsAny(s, `"\`) {
		return []byte(`"` + s + `"`)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Appendf(nil, "%q", "cannot be shown: "+err.Error())
	}
	return cli.PrintableJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// shorten cuts text to at most limit bytes, between two characters. 0 means no limit.
func shorten(text string, limit int) (short string, cut bool) {
	if limit <= 0 || len(text) <= limit {
		return text, false
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}

// thousands formats n with commas: 1,234,567.
func thousands(n int) string {
	text := fmt.Sprint(n)
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 && text[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
