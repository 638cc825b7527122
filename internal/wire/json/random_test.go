package json

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// documents generates random documents: valid and malformed ones, from a small vocabulary, so that
// much of them is equal.
type documents struct {
	r     *rand.Rand
	seeds [][]byte
}

func newDocuments(seed uint64) *documents {
	return &documents{r: rand.New(rand.NewPCG(seed, 2)), seeds: wiretest.CustomResources(20, seed)}
}

// next returns a realistic document, a random one, or a mutation of either.
func (d *documents) next() []byte {
	var text []byte
	if d.r.IntN(2) == 0 {
		text = bytes.Clone(d.seeds[d.r.IntN(len(d.seeds))])
	} else {
		text = []byte(d.object(5))
	}
	for d.r.IntN(3) == 0 {
		text = d.mutate(text)
	}
	return text
}

// mutate changes some bytes, or repeats or drops a piece.
func (d *documents) mutate(text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	from := d.r.IntN(len(text))
	to := min(len(text), from+d.r.IntN(20))
	switch d.r.IntN(4) {
	case 0:
		text[from] = byte(d.r.IntN(256))
	case 1:
		text[from] = `{}[]",:\ 0eE.-+tfnu`[d.r.IntN(19)]
	case 2:
		text = append(bytes.Clone(text[:to]), text[from:]...)
	default:
		text = append(bytes.Clone(text[:from]), text[to:]...)
	}
	return text
}

var (
	randomNames   = []string{`"a"`, `"b"`, `"metadata"`, `"name"`, `"\u0061"`, `"spec"`, `"A"`, `""`, `"é"`, "\"\xff\"", `"items"`, `"labels"`}
	randomStrings = []string{`""`, `"x"`, `"a longer string"`, `"\u00e9\n"`, `"\ud800"`, `"\ud83d\ude00"`, "\"\xc3\x28\"", "\"\u2028\"", `"\/"`, `"é"`, `"\\"`, `"\\\""`}
	randomNumbers = []string{
		"0", "-0", "1", "-1", "255", "256", "1.0", "1e3", "1E400", "-1e-400", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "123456789012345678901234567890", "0.1", "1.7976931348623157e308",
	}
	brokenScalars = []string{"01", "+1", "1.", ".5", "1e", "nul", "True", `"\x"`, `"\u12"`, "\"\n\"", `'a'`, "NaN", "--1", `"open`}
)

func (d *documents) pick(from []string) string { return from[d.r.IntN(len(from))] }

func (d *documents) space() string { return d.pick([]string{"", "", "", "", " ", "\n\t "}) }

func (d *documents) value(depth int) string {
	switch n := d.r.IntN(40); {
	case n == 0:
		return d.pick(brokenScalars)
	case n < 12 && depth > 0:
		return d.object(depth - 1)
	case n < 20 && depth > 0:
		return d.array(depth - 1)
	case n < 30:
		return d.pick(randomStrings)
	case n < 34:
		return fmt.Sprintf("%q", d.pick([]string{"u", "v"})+fmt.Sprint(d.r.IntN(1e6)))
	case n < 37:
		return d.pick([]string{"null", "true", "false"})
	default:
		return d.pick(randomNumbers)
	}
}

func (d *documents) object(depth int) string {
	var members []string
	if d.r.IntN(2) == 0 || depth == 5 {
		members = append(members, `"kind":"K"`)
	}
	for range d.r.IntN(6) {
		members = append(members, d.pick(randomNames)+d.space()+":"+d.space()+d.value(depth))
	}
	return "{" + strings.Join(members, d.space()+","+d.space()) + d.space() + "}"
}

func (d *documents) array(depth int) string {
	elements := make([]string, d.r.IntN(5))
	for i := range elements {
		elements[i] = d.value(depth)
	}
	return "[" + strings.Join(elements, ","+d.space()) + "]"
}
