package wire

import "fmt"

// The memory that an object may take when it is decoded: freeBytes, and maxExpansion times its encoding. Real objects stay far
// below. Without a bound, a few bytes for each of many empty messages or maps could take hundreds of times as much.
const (
	freeBytes    = 1 << 20
	maxExpansion = 64
)

// Allowance returns how many bytes of memory an object of size encoded bytes may take.
func Allowance(size int) int { return freeBytes + maxExpansion*size }

// ExpansionError says that an object would take far more memory than its encoding.
type ExpansionError struct {
	Size int // of the encoding, in bytes
}

// Error implements error.
func (e *ExpansionError) Error() string {
	return fmt.Sprintf("%d encoded bytes would take more than %d bytes of memory, as no real object does", e.Size, Allowance(e.Size))
}
