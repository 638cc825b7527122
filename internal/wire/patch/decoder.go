package patch

// Decoder decodes objects that are kept as patches of others.
type Decoder[T any] interface {
	// DecodeBase decodes the base of patches. The object's strings may point into data, which must
	// not change any more. It returns an error if data uses liberties of the encoding that no API
	// server takes.
	DecodeBase(data []byte) (T, error)
	// DecodePatch applies a patch to base, the object decoded from the bytes that the patch was made
	// against. Parts that the patch does not touch become parts of the result without being
	// checked, so nobody may have written to base. base is only read.
	DecodePatch(base T, patch []byte) (T, error)
	// DecodeNextPatch is like DecodePatch, given another object, an earlier state, and the patch that
	// made it from the same base. Parts that are the same in both become parts of the result without
	// being checked, so nobody may have written to other either.
	DecodeNextPatch(base T, patch []byte, other T, otherPatch []byte) (T, error)
}
