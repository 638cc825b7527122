package file

import "errors"

var (
	// ErrBroken is wrapped by errors about files that are not as they were written: truncated,
	// changed, or not such files at all.
	ErrBroken = errors.New("broken file")
	// ErrVersion is wrapped by the error about a file of another format version.
	ErrVersion = errors.New("file of another format version")
	// ErrKey is wrapped by errors about files that cannot be read with this key: encrypted with
	// another one, not encrypted although a key was given, or encrypted although none was.
	ErrKey = errors.New("wrong key for file")
	// ErrIdentity is wrapped by the error of Header.Check.
	ErrIdentity = errors.New("file of something else")
	// ErrTooLarge is wrapped by the error about a header or record that exceeds the limits of a file.
	ErrTooLarge = errors.New("too large for a file")
)
