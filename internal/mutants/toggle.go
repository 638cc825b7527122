package main

import (
	"cmp"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// toggle is a mutant that can be switched on at run time, so that many mutants are compiled at
// once. Toggles are nested like the code that they change.
type toggle struct {
	start, end int // of the code between the edits
	edits      []edit
}

// edit replaces the code from start to end with text, in which $ stands for the number of the
// mutant. Edits contain no line breaks, so that line numbers are preserved.
type edit struct {
	start, end int
	text       string
}

// withToggles returns the source of a file with the toggles of mutants, keyed by their numbers.
func withToggles(source []byte, mutants map[int]*mutant) []byte {
	type numbered struct {
		edit
		number int
		of     toggle
	}
	var all []numbered
	for number, m := range mutants {
		for _, e := range m.toggle.edits {
			all = append(all, numbered{e, number, m.toggle})
		}
	}
	slices.SortFunc(all, func(a, b numbered) int {
		closes := func(n numbered) int {
			if n.start == n.of.end {
				return 0
			}
			return 1
		}
		order := cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(closes(a), closes(b)))
		if order != 0 {
			return order
		}
		// Of toggles around the same code, one that changes the operator in it too is inside the others.
		inner := cmp.Or(cmp.Compare(len(a.of.edits), len(b.of.edits)), cmp.Compare(a.number, b.number))
		if closes(a) == 0 {
			return cmp.Or(cmp.Compare(b.of.start, a.of.start), -inner)
		}
		return cmp.Or(cmp.Compare(b.of.end, a.of.end), inner)
	})
	var out strings.Builder
	at := 0
	for _, e := range all {
		out.Write(source[at:e.start])
		out.WriteString(strings.ReplaceAll(e.text, "$", strconv.Itoa(e.number)))
		at = e.end
	}
	out.Write(source[at:])
	return []byte(out.String())
}

// operatorNames maps operators to the functions in toggleSource that replace them.
var operatorNames = map[token.Token]string{
	token.LSS: "mutantLess", token.LEQ: "mutantLessOrEqual", token.GTR: "mutantGreater", token.GEQ: "mutantGreaterOrEqual",
	token.ADD: "mutantAdd", token.SUB: "mutantSub", token.MUL: "mutantMul", token.QUO: "mutantQuo",
}

// Environment variables of a program with toggles.
const (
	activeVariable  = "TIDINGS_MUTANT"          // number of the mutant that is switched on
	reachedVariable = "TIDINGS_MUTANTS_REACHED" // file to which the numbers of mutants are written when they are first reached
)

// toggleSource returns the additional file of a package with toggles for n mutants.
func toggleSource(name string, n int) []byte {
	return []byte(strings.NewReplacer("$PACKAGE", name, "$N", strconv.Itoa(n), "$ACTIVE", activeVariable, "$REACHED", reachedVariable).Replace(`package $PACKAGE

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantActive  = mutantFromEnv()
	mutantLog     = mutantOpen()
	mutantReached [$N]atomic.Bool
)

func mutantFromEnv() int {
	n, err := strconv.Atoi(os.Getenv("$ACTIVE"))
	if err != nil {
		return -1
	}
	return n
}

func mutantOpen() *os.File {
	f, err := os.OpenFile(os.Getenv("$REACHED"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil
	}
	return f
}

func mutantOn(n int) bool {
	if mutantLog != nil && !mutantReached[n].Swap(true) {
		mutantLog.WriteString(strconv.Itoa(n) + "\n")
	}
	return n == mutantActive
}

type mutantNumeric interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantLess[T cmp.Ordered](n int, a, b T) bool           { return a < b || a == b && mutantOn(n) }
func mutantLessOrEqual[T cmp.Ordered](n int, a, b T) bool    { return a < b || a == b && !mutantOn(n) }
func mutantGreater[T cmp.Ordered](n int, a, b T) bool        { return a > b || a == b && mutantOn(n) }
func mutantGreaterOrEqual[T cmp.Ordered](n int, a, b T) bool { return a > b || a == b && !mutantOn(n) }

func mutantAdd[T mutantNumeric](n int, a, b T) T {
	if mutantOn(n) {
		return a - b
	}
	return a + b
}

func mutantSub[T mutantNumeric](n int, a, b T) T {
	if mutantOn(n) {
		return a + b
	}
	return a - b
}

func mutantMul[T mutantNumeric](n int, a, b T) T {
	if mutantOn(n) {
		return a / b
	}
	return a * b
}

func mutantQuo[T mutantNumeric](n int, a, b T) T {
	if mutantOn(n) {
		return a * b
	}
	return a / b
}

func mutantNone[T any](n int, v T) T {
	if mutantOn(n) {
		var none T
		return none
	}
	return v
}

func mutantNumber[T any](n int, v, larger T) T {
	if mutantOn(n) {
		return larger
	}
	return v
}
`))
}
