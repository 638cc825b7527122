package cli

import (
	"errors"
	"io"
	"os"
	"unicode"
	"unicode/utf8"
)

// ErrNoKeyboard says that keys cannot be read: not from a terminal, not in the background, or not on this system.
var ErrNoKeyboard = errors.New("there are no keys to read")

// OnTerminal reports whether somebody sits before the command: it reads from a terminal and writes everything to one
// that can move its cursor.
func OnTerminal(stdin io.Reader, stdout, stderr io.Writer) bool {
	file, ok := stdin.(*os.File)
	name := os.Getenv("TERM")
	return ok && IsTerminal(file) && IsTerminal(stdout) && IsTerminal(stderr) && name != "" && name != "dumb"
}

// The keys that are no characters.
const (
	KeyEnter     = "enter"
	KeyEscape    = "esc"
	KeyBackspace = "backspace"
	KeyClear     = "ctrl+u"
	KeyInterrupt = "ctrl+c"
)

var controlKeys = map[byte]string{
	'\r': KeyEnter, '\n': KeyEnter, 0x7f: KeyBackspace, 0x08: KeyBackspace, 0x15: KeyClear, 0x03: KeyInterrupt,
}

// keysOf splits what a terminal sent into keys: characters, and the names above. Keys such as arrows are left out. rest
// is the beginning of a character that is not complete.
func keysOf(input []byte) (keys []string, rest []byte) {
	for len(input) > 0 {
		if input[0] == 0x1b {
			n := sequence(input)
			if n == 1 {
				keys = append(keys, KeyEscape)
			}
			input = input[n:]
			continue
		}
		if name := controlKeys[input[0]]; name != "" {
			keys = append(keys, name)
			input = input[1:]
			continue
		}
		if !utf8.FullRune(input) {
			return keys, input
		}
		r, n := utf8.DecodeRune(input)
		if unicode.IsPrint(r) {
			keys = append(keys, string(r))
		}
		input = input[n:]
	}
	return keys, nil
}

// sequence returns the length of what begins with an escape character: of that alone, if a person pressed it, or of
// what stands for another key.
func sequence(input []byte) int {
	switch {
	case len(input) == 1 || input[1] == 0x1b:
		return 1
	case input[1] != '[' && input[1] != 'O':
		return 2
	}
	for i := 2; i < len(input); i++ {
		if input[i] >= 0x40 && input[i] <= 0x7e {
			return i + 1
		}
	}
	return len(input)
}
