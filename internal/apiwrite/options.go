package apiwrite

import (
	"bytes"
	"encoding/json"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// deleteOptions are the parts of DeleteOptions, or of an Eviction, that matter.
type deleteOptions struct {
	DryRun             []string       `json:"dryRun"`
	GracePeriodSeconds *int64         `json:"gracePeriodSeconds"`
	DeleteOptions      *deleteOptions `json:"deleteOptions"`
}

// parseOptions reads DeleteOptions, or those in an Eviction.
func parseOptions(contentType string, data []byte) Options {
	var d deleteOptions
	switch mediaType(contentType) {
	case "application/vnd.kubernetes.protobuf":
		d = optionsMessage(data)
	case "application/cbor":
		var content map[string]any // strict decoding into a struct would refuse its other fields
		if cbor.Unmarshal(data, &content) == nil {
			data, _ = json.Marshal(content)
			_ = json.Unmarshal(data, &d)
		}
	default:
		_ = json.Unmarshal(data, &d)
	}
	if d.DeleteOptions != nil {
		d = *d.DeleteOptions
	}
	return Options{DryRun: len(d.DryRun) > 0, Force: d.GracePeriodSeconds != nil && *d.GracePeriodSeconds == 0}
}

func optionsMessage(data []byte) (d deleteOptions) {
	data, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return d
	}
	kind := ""
	for m := (message{data: data}); m.next(); {
		switch m.number {
		case 1:
			for t := (message{data: m.value}); t.next(); {
				if t.number == 2 {
					kind = string(t.value)
				}
			}
		case 2:
			if kind != "Eviction" {
				return optionFields(m.value)
			}
			for e := (message{data: m.value}); e.next(); {
				if e.number == 2 {
					d = optionFields(e.value)
				}
			}
		}
	}
	return d
}

func optionFields(data []byte) (d deleteOptions) {
	for m := (message{data: data}); m.next(); {
		switch m.number {
		case 1:
			seconds := int64(m.varint)
			d.GracePeriodSeconds = &seconds
		case 5:
			d.DryRun = append(d.DryRun, string(m.value))
		}
	}
	return d
}
