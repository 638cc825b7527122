package wire

import "fmt"

// A decoded object may take freeBytes plus maxExpansion times its encoding. Real objects stay far
// below. Without a bound, an encoding of many empty messages or maps, a few bytes each, could take
// hundreds of times its size.
const (
	freeBytes    = 1 << 20
	maxExpansion = 64
)

// Allowance returns how many bytes of memory an object of size encoded bytes may take.
func Allowance(size int) int { return freeBytes + maxExpansion*size }

// ExpansionError says that an object would take far more memory than its encoding justifies.
type ExpansionError struct {
	Size int // of the encoding, in bytes
}

// Error implements error.
func (e *ExpansionError) Error() string {
	return fmt.Sprintf("%d encoded bytes would take more than %d bytes of memory, as no real object does", e.Size, Allowance(e.Size))
}
