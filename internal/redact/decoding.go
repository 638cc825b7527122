package redact

import (
	"errors"
	"fmt"
	"regexp"
)

// Decoding returns an error from decoding an object without the parts of its text that may quote
// the object: any object may be a Secret, or contain one. errors.Is and errors.As find in it what
// they find in err, unless err panics, like a nil pointer that a method of the type has returned.
func Decoding(err error) (redacted error) {
	defer func() {
		if recover() != nil {
			redacted = fmt.Errorf("the error, a %T, panics", err)
		}
	}()
	text := err.Error()
	clean := unquoted.FindString(text)
	if len(clean) < len(text) {
		clean += "…"
	}
	if clean = number.ReplaceAllString(clean, "number"); clean == text {
		return err
	}
	return &decodingError{clean, err}
}

var (
	// unquoted matches text up to the first quotation mark; single characters do no harm, and say what is wrong.
	unquoted = regexp.MustCompile("^(?:(?:character|expecting) '(?:[^'\\\\]|\\\\.\\w{0,8})'|[^\"'`])*")
	number   = regexp.MustCompile(`number -?\d[-+.\w]*`)
)

// decodingError does not unwrap to the original error, whose text would be printed then.
type decodingError struct {
	text string
	err  error
}

func (e *decodingError) Error() string { return e.text }

// Is and As make errors.Is and errors.As look at the original error.
func (e *decodingError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *decodingError) As(target any) bool   { return errors.As(e.err, target) }
