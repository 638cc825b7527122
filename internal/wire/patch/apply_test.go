package patch

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
)

// text is a field with a length.
func text(number protowire.Number, parts ...string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), strings.Join(parts, "")))
}

func number(n protowire.Number, v uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v))
}

// builder writes patches by hand.
type builder []byte

func start() builder                              { return AppendCount(nil, 0) }
func (b builder) entry(n int32, a Action) builder { return AppendEntry(b, n, a) }
func (b builder) element(gap int, c Change) builder {
	return AppendElement(b, gap, c)
}
func (b builder) count(n int) builder            { return AppendCount(b, n) }
func (b builder) bytes(s string) builder         { return AppendBytes(b, []byte(s)) }
func (b builder) text(base, text string) builder { return AppendText(b, []byte(base), []byte(text)) }
func (b builder) splice(n int32, base, text string) builder {
	return AppendSplice(b, n, []byte(base), []byte(text))
}
func (b builder) shift(n int32, was, is int64) builder { return AppendShift(b, n, was, is) }
func (b builder) end() builder                         { return AppendEnd(b) }

func timeOf(seconds int64) string { return string(appendTime(nil, seconds)) }

var long = strings.Repeat("x", 200)

// TestApply has each action and change, and combinations of them.
func TestApply(t *testing.T) {
	base := text(1, "name") + number(2, 7) + text(3, text(1, "in"), number(2, 300)) + text(4, "a") + text(4, "b") + text(4, "c") + number(6, 1) +
		text(7, timeOf(1_700_000_000))
	name := func(now string) string { return strings.Replace(base, text(1, "name"), text(1, now), 1) }
	at := func(seconds int64) string {
		return strings.Replace(base, timeOf(1_700_000_000), timeOf(seconds), 1)
	}
	uuid := "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	for name, c := range map[string]struct {
		patch builder
		want  string
	}{
		"nothing":  {start().end(), base},
		"drop":     {start().entry(2, Drop).end(), strings.Replace(base, number(2, 7), "", 1)},
		"set":      {start().entry(2, Set).bytes(number(2, 9)).end(), strings.Replace(base, number(2, 7), number(2, 9), 1)},
		"set new":  {start().entry(5, Set).bytes(text(5, "new")).end(), strings.Replace(base, number(6, 1), text(5, "new")+number(6, 1), 1)},
		"set last": {start().entry(9, Set).bytes(text(9, "new")).end(), base + text(9, "new")},
		"splice":   {start().entry(1, Splice).text("name", "name-2").end(), strings.Replace(base, text(1, "name"), text(1, "name-2"), 1)},
		"longer":   {start().entry(1, Splice).text("name", "name"+long).end(), strings.Replace(base, text(1, "name"), text(1, "name", long), 1)},
		"within":   {start().entry(3, Within).entry(1, Drop).end().end(), strings.Replace(base, text(3, text(1, "in"), number(2, 300)), text(3, number(2, 300)), 1)},
		"within, longer": {start().entry(3, Within).entry(1, Splice).text("in", long).end().end(),
			strings.Replace(base, text(3, text(1, "in"), number(2, 300)), text(3, text(1, long), number(2, 300)), 1)},
		"list, same":    {start().entry(4, List).count(3).end().end(), base},
		"list, shorter": {start().entry(4, List).count(1).end().end(), strings.Replace(base, text(4, "b")+text(4, "c"), "", 1)},
		"list, longer": {start().entry(4, List).count(5).element(3, NewElement).bytes("d").element(0, NewElement).bytes("").end().end(),
			strings.Replace(base, text(4, "c"), text(4, "c")+text(4, "d")+text(4), 1)},
		"list, changed": {start().entry(4, List).count(3).element(1, SpliceElement).text("b", "bb").end().end(),
			strings.Replace(base, text(4, "b"), text(4, "bb"), 1)},
		"digits":            {start().splice(1, "name", "na0123456789abcdef").end(), name("na0123456789abcdef")},
		"digits, odd":       {start().splice(1, "name", "12345").end(), name("12345")},
		"digits, most":      {start().splice(1, "name", strings.Repeat("f", MaxDigits)).end(), name(strings.Repeat("f", MaxDigits))},
		"digits, too many":  {start().splice(1, "name", strings.Repeat("f", MaxDigits+1)).end(), name(strings.Repeat("f", MaxDigits+1))},
		"as many as a uuid": {start().splice(1, "name", strings.Repeat("f", 36)).end(), name(strings.Repeat("f", 36))},
		"a uuid":            {start().splice(1, "name", uuid).end(), name(uuid)},
		"no uuid":           {start().splice(1, "name", strings.ToUpper(uuid)).end(), name(strings.ToUpper(uuid))},
		"hyphens elsewhere": {start().splice(1, "name", uuid[1:]+"0").end(), name(uuid[1:] + "0")},
		"shift":             {start().shift(7, 1_700_000_000, 1_700_000_001).end(), at(1_700_000_001)},
		"shift back":        {start().shift(7, 1_700_000_000, minSeconds).end(), at(minSeconds)},
		"shift to the end":  {start().shift(7, 1_700_000_000, maxSeconds).end(), at(maxSeconds)},
		"all":               {start().entry(1, Drop).entry(2, Drop).entry(3, Drop).entry(4, Drop).entry(6, Drop).entry(7, Drop).end(), ""},
	} {
		got, err := Apply([]byte("kept"), []byte(base), c.patch, len(c.want))
		if err != nil || string(got) != "kept"+c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", name, err, got, c.want)
		}
		for size := range len(c.want) {
			if got, err := Apply([]byte("kept"), []byte(base), c.patch, size); err != ErrBroken || string(got) != "kept" {
				t.Errorf("%s, of at most %d bytes: %q, %v", name, size, got, err)
			}
		}
		for n := range len(c.patch) {
			if _, err := Apply(nil, []byte(base), c.patch[:n], len(c.want)); err != ErrBroken {
				t.Errorf("%s: the first %d bytes were applied: %v", name, n, err)
			}
		}
		if _, err := Apply(nil, []byte(base), append(c.patch, 0), len(c.want)); err != ErrBroken {
			t.Errorf("%s: one byte more was applied: %v", name, err)
		}
	}
}

// TestApplyShorterLength: if a change shortens the lengths around it, at several depths, the exact size is enough.
func TestApplyShorterLength(t *testing.T) {
	nested := func(n int) string { return text(1, text(1, text(1, text(1, strings.Repeat("x", n))))) }
	for from := 100; from < 140; from++ {
		for to := 100; to < 140; to++ {
			p := start().entry(1, Within).entry(1, Within).entry(1, Within).entry(1, Splice).text(strings.Repeat("x", from), strings.Repeat("x", to)).end().end().end().end()
			if got, err := Apply(nil, []byte(nested(from)), p, len(nested(to))); err != nil || string(got) != nested(to) {
				t.Fatalf("from %d to %d: %v", from, to, err)
			}
		}
	}
}

// TestApplyBroken has malformed patches, and patches of another base.
func TestApplyBroken(t *testing.T) {
	base := text(1, "name") + text(2, "a") + text(2, "b") + number(3, 1) + text(4, number(1, 1)) + text(5, timeOf(1_700_000_000))
	deep, deepBase := start(), ""
	for range maxDepth + 2 {
		deep, deepBase = deep.entry(1, Within), text(1, deepBase)
	}
	for range maxDepth + 3 {
		deep = deep.end()
	}
	for name, c := range map[string]struct {
		base  string
		patch builder
	}{
		"empty":                   {base, nil},
		"the head is too long":    {base, AppendCount(nil, len(base)+1)},
		"a field twice":           {base, start().entry(1, Drop).entry(1, Drop).end()},
		"numbers that decrease":   {base, start().entry(2, Drop).entry(1, Drop).end()},
		"number 0":                {base, append(start(), byte(Set), 0, 0)},
		"a number above all":      {base, start().entry(math.MaxInt32, Drop).end()},
		"the end of a field":      {base, append(start(), 1<<3, 0)},
		"another field is set":    {base, start().entry(1, Set).bytes(text(2, "x")).end()},
		"what is set is cut":      {base, start().entry(1, Set).bytes(text(1, "x")[:2]).end()},
		"within two":              {base, start().entry(2, Within).end().end()},
		"within a number":         {base, start().entry(3, Within).end().end()},
		"within nothing":          {base, start().entry(9, Within).end().end()},
		"splice of nothing":       {base, start().entry(9, Splice).text("", "x").end()},
		"splice of too much":      {base, start().entry(1, Splice).text("name-and-more", "name-and-more").end()},
		"digits of nothing":       {base, start().splice(9, "", "0123456789").end()},
		"digits of a number":      {base, start().splice(3, "", "0123456789").end()},
		"digits of too much":      {base, start().splice(1, "name-and-more", "name-and-more0123456789").end()},
		"too many digits":         {base, append(AppendCount(append(start().entry(1, Digits), 0, 0), MaxDigits+1), make([]byte, MaxDigits+2)...)},
		"more digits than all":    {base, AppendCount(append(start().entry(1, Digits), 0, 0), math.MaxInt32)},
		"digits that are cut":     {base, append(AppendCount(append(start().entry(1, Digits), 0, 0), 9), 1, 2, 3, 4)},
		"a uuid that is cut":      {base, append(append(start().entry(1, Digits), 0, 0, 36), make([]byte, 15)...)},
		"shift of a text":         {base, start().shift(1, 1, 2).end()},
		"shift of a number":       {base, start().shift(3, 1, 2).end()},
		"shift of nothing":        {base, start().shift(9, 1, 2).end()},
		"shift of two":            {base, start().shift(2, 1, 2).end()},
		"shift too far back":      {base, start().shift(5, 1_700_000_000, minSeconds-1).end()},
		"shift too far":           {base, start().shift(5, 1_700_000_000, maxSeconds+1).end()},
		"shift beyond all":        {base, start().shift(5, 0, math.MaxInt64).end()},
		"list of numbers":         {base, start().entry(3, List).count(1).end().end()},
		"list of nothing":         {base, start().entry(9, List).count(1).element(0, NewElement).bytes("").end().end()},
		"list, too many":          {base, start().entry(2, List).count(math.MaxInt32).end().end()},
		"list, some are missing":  {base, start().entry(2, List).count(4).end().end()},
		"list, a great gap":       {base, start().entry(2, List).count(2).element(math.MaxInt32, NewElement).bytes("").end().end()},
		"list, one too many":      {base, start().entry(2, List).count(2).element(2, NewElement).bytes("").end().end()},
		"list, change of nothing": {base, start().entry(2, List).count(3).element(2, SpliceElement).text("", "x").end().end()},
		"no change":               {base, append(start().entry(2, List).count(2), 1<<2)},
		"too deep":                {deepBase, deep},
		"no base":                 {"\x0a", start().entry(2, Drop).end()},
		"a base of nonsense":      {"\x07\x07\x07", start().entry(2, Drop).end()},
	} {
		if got, err := Apply(nil, []byte(c.base), c.patch, 1<<20); err != ErrBroken || len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestFieldEnd compares with protowire, for valid, truncated and random fields.
func TestFieldEnd(t *testing.T) {
	rng := testseed.Rand(t)
	for range 20_000 {
		b := make([]byte, rng.IntN(12))
		for i := range b {
			if b[i] = byte(rng.UintN(256)); rng.IntN(2) == 0 {
				b[i] &= 0x0f
			}
		}
		want := -1
		if _, _, n := protowire.ConsumeField(b); n >= 0 {
			want = n
			if got, _, _ := protowire.ConsumeTag(b); Number(b) != int32(got) && got != None {
				t.Fatalf("%x is field %d, got %d", b, got, Number(b))
			}
		}
		if got := FieldEnd(b, 0); got != want {
			t.Fatalf("%x ends at %d, got %d", b, want, got)
		}
	}
	if n := Number(protowire.AppendTag(nil, None, protowire.VarintType)); n != 0 {
		t.Errorf("the number that stands for none is %d", n)
	}
}

// TestText splices random texts with much in common.
func TestText(t *testing.T) {
	rng := testseed.Rand(t)
	random := func() string { return strings.Repeat(string('a'+rune(rng.IntN(2))), rng.IntN(40)) }
	for range 5000 {
		base := random() + random() + random()
		want := base
		if at := rng.IntN(len(base) + 1); rng.IntN(4) > 0 {
			want = base[:at] + random() + base[min(len(base), at+rng.IntN(8)):]
		}
		r := &Reader{data: AppendText(nil, []byte(base), []byte(want))}
		before, behind, between := r.Text(len(base))
		if got := base[:before] + string(between) + base[len(base)-behind:]; r.Finish() != nil || got != want {
			t.Fatalf("%q of %q became %q: %v", want, base, got, r.Err())
		}
	}
}

// TestSplice splices texts of digits, hyphens and other bytes.
func TestSplice(t *testing.T) {
	rng := testseed.Rand(t)
	random := func(alphabet string) string {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return string(b)
	}
	uuid := func() string {
		b := []byte(strings.Repeat("x", 36))
		for i := range b {
			b[i] = "0123456789abcdef"[rng.IntN(16)]
			switch {
			case i == 8, i == 13, i == 18, i == 23, rng.IntN(300) == 0:
				b[i] = '-'
			}
		}
		return string(b)
	}
	smaller := 0
	for range 5000 {
		base, want := random("ab"), random("ab")+random("0123456789abcdef")+random("-x")
		if rng.IntN(2) == 0 {
			base, want = uuid(), uuid()
		}
		p := start().splice(1, base, want)
		if len(p) < len(want) {
			smaller++
		}
		r, _ := NewReader(p)
		_, action := r.Entry()
		before, behind, between := r.Spliced(action, len(base), new(Scratch))
		if got := base[:before] + string(between) + base[len(base)-behind:]; r.Finish() != nil || got != want {
			t.Fatalf("%q of %q became %q: %v", want, base, got, r.Err())
		}
		skipping, _ := NewReader(p)
		_, action = skipping.Entry()
		if skipping.Skip(action); skipping.Finish() != nil {
			t.Fatalf("%q of %q cannot be skipped", want, base)
		}
	}
	if smaller < 2000 {
		t.Errorf("only %d of the texts became smaller", smaller)
	}
}

// TestSeconds compares with the encoding of metav1, and refuses other times.
func TestSeconds(t *testing.T) {
	for _, seconds := range []int64{1 << 28, 1<<35 - 1, 1_700_000_000} {
		data, err := (&metav1.Timestamp{Seconds: seconds}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := Seconds(data); s != seconds || !ok {
			t.Errorf("%d seconds: %d, %t", seconds, s, ok)
		}
		if written := appendTime(nil, seconds); !bytes.Equal(written, data) {
			t.Errorf("%d seconds became %x, not %x", seconds, written, data)
		}
	}
	for _, data := range []string{
		"", "\x08\x80\x80\x80\x80\x80\x10\x00", "\x08\x80\x80\x80\x80\x81\x10\x00", "\x08\x81\x81\x81\x01\x01\x10\x00", "\x08\x81\x81\x81\x81\x01\x10\x01",
		"\x10\x81\x81\x81\x81\x01\x10\x00", "\x08\x81\x81\x81\x81\x01\x08\x00", "\x08\x81\x81\x81\x81\x01\x10\x00\x00", "\x08\x81\x81\x81\x81\x00\x10\x00",
	} {
		if s, ok := Seconds([]byte(data)); ok {
			t.Errorf("%q: %d", data, s)
		}
	}
}

// checkApply checks the invariants of Apply for arbitrary bases and patches.
func checkApply(t *testing.T, base, p []byte) {
	t.Helper()
	was, kept := bytes.Clone(base), []byte("kept")
	size := len(base) + len(p)
	got, err := Apply(kept, base, p, size)
	if !bytes.Equal(base, was) {
		t.Fatalf("patch %x has written to its base", p)
	}
	if !bytes.HasPrefix(got, kept) || len(got) > len(kept)+size || cap(got) > 4*(size+100) {
		t.Fatalf("patch %x of %x makes %d bytes in %d", p, base, len(got), cap(got))
	}
	if err != nil && (err != ErrBroken || len(got) > len(kept)) {
		t.Fatalf("patch %x of %x makes %x: %v", p, base, got, err)
	}
}

// TestApplyRandom applies random bytes, and mutated patches.
func TestApplyRandom(t *testing.T) {
	rng := testseed.Rand(t)
	base := []byte(text(1, "name") + text(2, text(1, "a"), text(1, "b")) + text(4, "a") + text(4, "b") + text(4, long) + number(6, 1) + text(8, timeOf(2e9)) + text(9, "0123"))
	p := start().entry(1, Splice).text("name", "nam").entry(2, Within).entry(1, List).count(3).element(1, SpliceElement).text("b", "bb").
		element(0, NewElement).bytes("c").end().end().entry(4, List).count(2).end().entry(7, Set).bytes(text(7, "x"))
	p = p.shift(8, 2e9, 2e9+1).splice(9, "0123", "4567").end()
	for range 20_000 {
		change := slices.Clone(p)
		for range 1 + rng.IntN(4) {
			change[rng.IntN(len(change))] = randomByte(rng)
		}
		checkApply(t, base, change)
		other := slices.Clone(base)
		other[rng.IntN(len(other))] = randomByte(rng)
		checkApply(t, other, p)
	}
}

func randomByte(rng *rand.Rand) byte { return byte(rng.UintN(256)) >> rng.IntN(8) }

func FuzzApply(f *testing.F) {
	base := []byte(text(1, "name") + text(2, text(1, "a"), text(1, "b")) + number(6, 1))
	f.Add(base, []byte(start().entry(1, Splice).text("name", "names").end()))
	f.Add(base, []byte(start().entry(2, Within).entry(1, List).count(3).element(2, NewElement).bytes("c").end().end().end()))
	f.Add(base, []byte(start().splice(1, "name", "0123456789").end()))
	f.Add([]byte(text(1, timeOf(2e9))), []byte(start().shift(1, 2e9, 2e9+1).end()))
	f.Add(base, []byte(start().entry(6, Drop).entry(7, Set).bytes(number(7, 1)).end()))
	f.Fuzz(func(t *testing.T, base, p []byte) { checkApply(t, base, p) })
}
