package source

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/testseed"
)

// frames encodes events of random sizes, some larger than the larger buffer, and returns their objects as well.
func frames(t *testing.T, rnd *rand.Rand, n int) (stream []byte, objects [][]byte) {
	t.Helper()
	for i := range n {
		size := rnd.IntN(8 << 10)
		if i%50 == 49 {
			size = rnd.IntN(2 * maxBufferSize)
		}
		object := make([]byte, size+1)
		for j := range object {
			object[j] = byte(rnd.Uint32())
		}
		event := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: object}}
		data, err := event.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(data))), data...)
		objects = append(objects, object)
	}
	return stream, objects
}

// TestFramesThroughAllBuffers reads a stream that fills all buffers, and one that arrives in pieces.
func TestFramesThroughAllBuffers(t *testing.T) {
	seed := testseed.Seed(t)
	stream, objects := frames(t, rand.New(rand.NewPCG(seed, 0)), 300)
	for name, body := range map[string]io.Reader{
		"at once":   bytes.NewReader(stream),
		"in halves": iotest.HalfReader(bytes.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			r := newFrameReader(body, DefaultMaxObjectBytes)
			borrowed := false
			for i, want := range objects {
				eventType, got, err := r.Next()
				borrowed = borrowed || len(r.in.buf) == maxBufferSize
				if err != nil || eventType != "MODIFIED" || !bytes.Equal(got, want) {
					t.Fatalf("event %d: type %q, %d bytes, error %v; want %d bytes", i, eventType, len(got), err, len(want))
				}
			}
			if _, _, err := r.Next(); err != io.EOF {
				t.Errorf("the end: %v", err)
			}
			if !borrowed || len(r.in.buf) != idleBufferSize || r.large != nil {
				t.Errorf("the largest buffer was borrowed: %t; at the end there are %d and %d bytes", borrowed, len(r.in.buf), cap(r.large))
			}
		})
	}
}
