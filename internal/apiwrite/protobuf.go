package apiwrite

import (
	"bytes"
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// parseProtobuf reads an answer in protobuf: runtime.Unknown, which contains the object.
func parseProtobuf(data []byte, a *Answer) {
	data, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return
	}
	var kind string
	for m := (message{data: data}); m.next(); {
		switch {
		case m.number == 1 && !m.short:
			for t := (message{data: m.value}); t.next(); {
				if t.number == 2 {
					kind = string(t.value)
				}
			}
		case m.number == 2:
			content(kind, m.value, m.short, a)
			return
		}
	}
}

// content reads the content of an answer; it is short if there is more of it.
func content(kind string, data []byte, short bool, a *Answer) {
	switch {
	case kind == "Status":
		statusMessage(data, a)
	case len(kind) > 4 && kind[len(kind)-4:] == "List":
		if !short {
			listMessage(data, a)
		}
	default:
		objectMessage(kind, data, &a.Object)
	}
}

func objectMessage(kind string, data []byte, o *Object) {
	o.MetadataOnly = kind == metadataKind
	for m := (message{data: data}); m.next(); {
		switch {
		case m.number == 1 && !m.short:
			metadataMessage(m.value, o)
			if kind != "Namespace" {
				return
			}
		case m.number == 2 && m.wire == lengthDelimited && !m.short:
			for s := (message{data: m.value}); s.next(); {
				if s.number == 1 && s.wire == lengthDelimited { // of a NamespaceSpec
					o.SpecFinalizers++
				}
			}
			return
		}
	}
}

func metadataMessage(data []byte, o *Object) {
	first, end := -1, 0 // of the labels, between which there may be other fields
	for m := (message{data: data}); m.next(); {
		switch m.number {
		case 1:
			o.Name = string(m.value)
		case 2:
			o.GenerateName = string(m.value)
		case 3:
			o.Namespace = string(m.value)
		case 5:
			o.UID = types.UID(m.value)
		case 6:
			o.ResourceVersion = string(m.value)
		case 9:
			o.DeletionTimestamp = &deleting
		case 10:
			seconds := int64(m.varint)
			o.DeletionGracePeriodSeconds = &seconds
		case 11:
			end = len(data) - len(m.data)
			if first < 0 {
				first = end - m.size
			}
		case 14:
			o.Finalizers = append(o.Finalizers, string(m.value))
		}
	}
	if first >= 0 {
		o.labels, o.asMessage = data[first:end], true
	}
}

// messageLabels decodes the labels among the fields of an ObjectMeta.
func messageLabels(data []byte) map[string]string {
	labels := map[string]string{}
	for m := (message{data: data}); m.next(); {
		if m.number != 11 {
			continue
		}
		var name, value string
		for entry := (message{data: m.value}); entry.next(); {
			switch entry.number {
			case 1:
				name = string(entry.value)
			case 2:
				value = string(entry.value)
			}
		}
		labels[name] = value
	}
	return labels
}

func statusMessage(data []byte, a *Answer) {
	for m := (message{data: data}); m.next(); {
		switch m.number {
		case 2:
			a.IsStatus = true
		case 4:
			a.Reason = metav1.StatusReason(m.value)
		case 5:
			for d := (message{data: m.value}); d.next(); {
				if d.number == 6 {
					a.UID = types.UID(d.value)
				}
			}
		}
	}
}

func listMessage(data []byte, a *Answer) {
	a.IsList = true
	for m := (message{data: data}); m.next(); {
		switch m.number {
		case 1:
			for l := (message{data: m.value}); l.next(); {
				if l.number == 3 {
					a.Continue = string(l.value)
				}
			}
		case 2:
			var o Object
			for i := (message{data: m.value}); i.next(); {
				if i.number == 1 {
					metadataMessage(i.value, &o)
					break
				}
			}
			a.Items = append(a.Items, o)
		}
	}
}

// The wire types of fields.
const (
	varint          = 0
	fixed64         = 1
	lengthDelimited = 2
	fixed32         = 5
)

// message iterates over the fields of a message.
type message struct {
	data []byte // what follows

	number int
	wire   int
	varint uint64
	value  []byte // of a lengthDelimited field
	size   int    // of the field with its tag
	short  bool   // the data ends within the value
}

// next moves to the next field. It returns false at the end, or at what is not a message.
func (m *message) next() bool {
	start := len(m.data)
	tag, n := binary.Uvarint(m.data)
	if n <= 0 {
		return false
	}
	m.data = m.data[n:]
	m.number, m.wire, m.value = int(tag>>3), int(tag&7), nil
	size := 0
	switch m.wire {
	case varint:
		if m.varint, size = binary.Uvarint(m.data); size <= 0 {
			return false
		}
	case fixed64:
		size = 8
	case fixed32:
		size = 4
	case lengthDelimited:
		length, n := binary.Uvarint(m.data)
		if n <= 0 {
			return false
		}
		m.data = m.data[n:]
		m.short = length > uint64(len(m.data))
		size = int(min(length, uint64(len(m.data))))
		m.value = m.data[:size]
	default:
		return false
	}
	if size > len(m.data) {
		return false
	}
	m.data = m.data[size:]
	m.size = start - len(m.data)
	return true
}
