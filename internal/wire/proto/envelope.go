package proto

import (
	"bytes"
	"errors"
	"fmt"
)

// magic is the prefix of every protobuf object of Kubernetes.
const magic = "k8s\x00"

// ErrNoMagic says that data lacks the four-byte prefix of Kubernetes' protobuf encoding.
var ErrNoMagic = errors.New("not in Kubernetes' protobuf encoding: the bytes k8s\\0 are missing at the beginning")

// Envelope is the envelope of an object, a runtime.Unknown. Its slices point into the bytes it was parsed from.
type Envelope struct {
	APIVersion, Kind []byte
	// Raw is the encoded object, for Decoder.Decode.
	Raw                          []byte
	ContentEncoding, ContentType []byte
}

// The numbers of the fields of runtime.Unknown and runtime.TypeMeta.
const (
	unknownTypeMeta        = 1
	unknownRaw             = 2
	unknownContentEncoding = 3
	unknownContentType     = 4

	typeMetaAPIVersion = 1
	typeMetaKind       = 2
)

// ParseEnvelope parses the envelope of data, which holds one object with its prefix. It copies nothing. The error is
// ErrNoMagic, or says how the envelope is malformed.
func ParseEnvelope(data []byte) (Envelope, error) {
	raw, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return Envelope{}, ErrNoMagic
	}
	var e Envelope
	err := eachField(raw, func(num int32, b []byte) error {
		switch num {
		case unknownTypeMeta:
			return e.parseTypeMeta(b)
		case unknownRaw:
			e.Raw = b
		case unknownContentEncoding:
			e.ContentEncoding = b
		case unknownContentType:
			e.ContentType = b
		}
		return nil
	}, unknownContentType)
	if err != nil {
		return Envelope{}, fmt.Errorf("envelope: %w", err)
	}
	return e, nil
}

func (e *Envelope) parseTypeMeta(b []byte) error {
	return eachField(b, func(num int32, b []byte) error {
		if num == typeMetaAPIVersion {
			e.APIVersion = b
		} else {
			e.Kind = b
		}
		return nil
	}, typeMetaKind)
}

// WatchEvent is one event of a watch, a metav1.WatchEvent. Its slices point into the bytes it was parsed from.
type WatchEvent struct {
	// Type is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
	Type []byte
	// Object is an object with its prefix, for ParseEnvelope.
	Object []byte
}

// The numbers of the fields of metav1.WatchEvent and runtime.RawExtension.
const (
	eventType    = 1
	eventObject  = 2
	extensionRaw = 1
)

// ParseWatchEvent parses one frame of a watch, without its length prefix. It copies nothing.
func ParseWatchEvent(frame []byte) (WatchEvent, error) {
	var e WatchEvent
	err := eachField(frame, func(num int32, b []byte) error {
		if num == eventType {
			e.Type = b
			return nil
		}
		return eachField(b, func(_ int32, b []byte) error {
			e.Object = b
			return nil
		}, extensionRaw)
	}, eventObject)
	if err != nil {
		return WatchEvent{}, fmt.Errorf("watch event: %w", err)
	}
	return e, nil
}

// eachField calls f for the fields of b numbered from 1 to last, which must all be strings, byte
// slices or messages. Other fields are skipped.
func eachField(b []byte, f func(num int32, b []byte) error, last int32) error {
	for i := 0; i < len(b); {
		num, wire, next, err := tag(b, i)
		if err != nil {
			return err
		}
		if num > last {
			if i, err = skip(b, i); err != nil {
				return err
			}
			continue
		}
		if wire != bytesWire {
			return fmt.Errorf("protobuf: wire type %d does not fit field %d", wire, num)
		}
		from, to, err := prefixed(b, next)
		if err != nil {
			return err
		}
		if err := f(num, b[from:to:to]); err != nil {
			return err
		}
		i = to
	}
	return nil
}
