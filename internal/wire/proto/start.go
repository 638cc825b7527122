package proto

import "google.golang.org/protobuf/encoding/protowire"

// StartOf descends through the fields with these numbers and returns as much of the last one as the truncated message
// contains; nil if message ends before it.
func StartOf(message []byte, path ...protowire.Number) []byte {
	for _, number := range path {
		for {
			n, wireType, size := protowire.ConsumeTag(message)
			if size < 0 {
				return nil
			}
			message = message[size:]
			if n == number && wireType == protowire.BytesType {
				break
			}
			if size = protowire.ConsumeFieldValue(n, wireType, message); size < 0 {
				return nil
			}
			message = message[size:]
		}
		length, size := protowire.ConsumeVarint(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		message = message[:min(uint64(len(message)), length)]
	}
	return message
}
