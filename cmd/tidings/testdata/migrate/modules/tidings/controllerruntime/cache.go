// Package tidingsruntime has the shape of the real one, for tests of what is changed in a program.
package tidingsruntime

func NewCache(config any) any { return nil }
