package json

import "github.com/go-json-experiment/json/jsontext"

// The kinds of tokens. jsontext has constants for them in later versions than the one that go.mod requires, which is
// the lowest that works: a program that requires another one keeps it.
const (
	kindNull        jsontext.Kind = 'n'
	kindFalse       jsontext.Kind = 'f'
	kindTrue        jsontext.Kind = 't'
	kindString      jsontext.Kind = '"'
	kindNumber      jsontext.Kind = '0'
	kindBeginObject jsontext.Kind = '{'
	kindEndObject   jsontext.Kind = '}'
	kindBeginArray  jsontext.Kind = '['
	kindEndArray    jsontext.Kind = ']'
)
