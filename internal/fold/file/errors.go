package file

import "errors"

var (
	// ErrBroken is wrapped by errors of files that are not as they were written: cut off, changed, or no such files at all.
	ErrBroken = errors.New("broken file")
	// ErrVersion is wrapped by the error of a file of another format version.
	ErrVersion = errors.New("file of another format version")
	// ErrKey is wrapped by errors of files that cannot be read with this key: they are encrypted with another one, or
	// are not encrypted although a key was given, or are although none was.
	ErrKey = errors.New("wrong key for file")
	// ErrIdentity is wrapped by the error of Header.Check.
	ErrIdentity = errors.New("file of something else")
	// ErrTooLarge is wrapped by the error of a header, or of a record, that has no place in a file.
	ErrTooLarge = errors.New("too large for a file")
)
