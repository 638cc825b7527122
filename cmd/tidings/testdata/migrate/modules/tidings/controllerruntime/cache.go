// Package tidingsruntime has the shape of the real one, for tests of what is changed in a program.
package tidingsruntime

func WithOptions(options any) func(config any) any { return NewCache }

func NewCache(config any) any { return nil }
