package recording

import (
	"bytes"
	"fmt"
	"hash/crc32"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Sum returns an entry as a line with the right checksum.
func Sum(entry string) string {
	return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(entry), castagnoli), entry)
}

// Resum gives every line the right checksum, so that fuzzed contents are not rejected by it.
func Resum(data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		if len(line) <= sumLength || line[len(line)-1] != '\n' {
			return append(out, line...)
		}
		out = append(out, Sum(string(line[sumLength:len(line)-1]))...)
	}
	return out
}

// RoundTrip returns an error as it would be played.
func RoundTrip(err error) error { return failureOf(schema.GroupResource{Resource: "pods"}, err).err() }
