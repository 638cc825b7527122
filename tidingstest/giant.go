package tidingstest

import (
	"bytes"
	"encoding/binary"

	"github.com/tidings/tidings/internal/protocol"
)

// giantPiece is the number of bytes of a giant frame per write.
const giantPiece = 64 << 10

// sendGiant sends an event whose frame has size bytes, without holding it in memory.
func (s *sender) sendGiant(size int) error {
	var head, tail []byte
	if s.encoder.Media == protocol.Protobuf {
		head = binary.BigEndian.AppendUint32(nil, uint32(size))
		head = append(head, giantProtobuf(size)...)
	} else {
		head, tail = []byte(`{"type":"ADDED","object":{"kind":"`), []byte("\"}}\n")
	}
	if err := s.body.write(head); err != nil {
		return err
	}
	piece := bytes.Repeat([]byte("x"), giantPiece)
	for left := size - len(head) - len(tail); left > 0; left -= len(piece) {
		if err := s.body.write(piece[:min(left, len(piece))]); err != nil {
			return err
		}
	}
	return s.body.write(tail)
}

// giantProtobuf returns the beginning of a watch event whose type is a text of nearly size bytes.
func giantProtobuf(size int) []byte {
	const typeField = 1<<3 | 2
	length := max(size-1-binary.MaxVarintLen32, 0)
	return binary.AppendUvarint([]byte{typeField}, uint64(length))
}
