package codec

import "encoding/binary"

// In protobuf, an encoding is the kind of the object followed by its message, which does not have the kind: its API
// version and name, each after its length.

// AppendKind appends the kind that a message is to follow.
func AppendKind(dst []byte, apiVersion, name string) []byte {
	return appendPrefixed(appendPrefixed(dst, apiVersion), name)
}

// CutKind splits an encoding into the kind and the message. It returns false if the kind is cut off.
func CutKind(encoding []byte) (apiVersion, name, message []byte, ok bool) {
	apiVersion, rest, ok := cutPrefixed(encoding)
	name, message, more := cutPrefixed(rest)
	if !ok || !more {
		return nil, nil, nil, false
	}
	return apiVersion, name, message, true
}

// AppendReceived appends the encoding of an object that a server sent as this message: it only copies the message
// instead of encoding the object again, and is never lossy.
func AppendReceived(dst, message []byte) []byte {
	return append(AppendKind(dst, "", ""), message...) // objects from sources have no kind
}

// Received returns the message of an encoding.
func Received(encoding []byte) (message []byte) {
	_, _, message, _ = CutKind(encoding)
	return message
}

func appendPrefixed(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func cutPrefixed(b []byte) (s, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}
