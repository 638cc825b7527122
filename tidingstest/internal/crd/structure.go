package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// structure is the schema of a custom resource.
type structure struct {
	root      node
	validator *validate.SchemaValidator
}

// node is the schema of one value, reduced to what pruning and defaulting need.
type node struct {
	Properties           map[string]*node
	Items                *node
	AdditionalProperties *additional
	Default              any
	Nullable             bool
	PreserveUnknown      bool `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
	EmbeddedResource     bool `json:"x-kubernetes-embedded-resource"`
}

// additional is the schema of the values of a map, or a bool that allows any.
type additional struct {
	any    bool
	schema *node
}

func (a *additional) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &a.any) == nil {
		return nil
	}
	return json.Unmarshal(data, &a.schema)
}

func newStructure(content map[string]any) (*structure, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	s := &structure{}
	if err := json.Unmarshal(data, &s.root); err != nil {
		return nil, err
	}
	var schema spec.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		return nil, err
	}
	s.validator = validate.NewSchemaValidator(&schema, nil, "", strfmt.Default)
	return s, nil
}

// Prune drops fields that are not in the schema, and returns their paths.
func (s *structure) Prune(content map[string]any) (unknown []string) {
	return s.root.prune(content, "", true)
}

func (n *node) prune(value any, path string, isObject bool) (unknown []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			unknown = append(unknown, n.pruneField(value, key, path, isObject)...)
		}
	case []any:
		if n.Items == nil {
			return nil
		}
		for i, item := range value {
			unknown = append(unknown, n.Items.prune(item, fmt.Sprintf("%s[%d]", path, i), n.Items.EmbeddedResource)...)
		}
	}
	return unknown
}

func (n *node) pruneField(value map[string]any, key, path string, isObject bool) (unknown []string) {
	if isObject && (key == "apiVersion" || key == "kind" || key == "metadata") {
		return nil
	}
	path = strings.TrimPrefix(path+"."+key, ".")
	next := n.Properties[key]
	if next == nil && n.AdditionalProperties != nil {
		if n.AdditionalProperties.any {
			return nil
		}
		next = n.AdditionalProperties.schema
	}
	switch {
	case next != nil:
		return next.prune(value[key], path, next.EmbeddedResource)
	case n.PreserveUnknown:
		return nil
	}
	delete(value, key)
	return []string{path}
}

// Default sets missing fields to their defaults in the schema.
func (s *structure) Default(content map[string]any) { s.root.setDefaults(content) }

func (n *node) setDefaults(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, next := range n.Properties {
			present, has := value[key]
			if next.Default != nil && (!has || present == nil && !next.Nullable) {
				value[key] = runtime.DeepCopyJSONValue(integers(next.Default))
			}
			next.setDefaults(value[key])
		}
		if n.AdditionalProperties != nil && n.AdditionalProperties.schema != nil {
			for key, item := range value {
				if n.Properties[key] == nil {
					n.AdditionalProperties.schema.setDefaults(item)
				}
			}
		}
	case []any:
		if n.Items != nil {
			for _, item := range value {
				n.Items.setDefaults(item)
			}
		}
	}
}

// DropNulls drops null from fields that cannot be null and have no default.
func (s *structure) DropNulls(content map[string]any) { s.root.dropNulls(content) }

func (n *node) dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			next := n.Properties[key]
			if next == nil && n.AdditionalProperties != nil {
				next = n.AdditionalProperties.schema
			}
			switch {
			case next == nil:
			case item == nil && !next.Nullable && next.Default == nil:
				delete(value, key)
			default:
				next.dropNulls(item)
			}
		}
	case []any:
		if n.Items != nil {
			for _, item := range value {
				n.Items.dropNulls(item)
			}
		}
	}
}

// integers converts whole numbers in decoded JSON to int64, the type that objects use.
func integers(value any) any {
	switch value := value.(type) {
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	case map[string]any:
		for key, item := range value {
			value[key] = integers(item)
		}
	case []any:
		for i, item := range value {
			value[i] = integers(item)
		}
	}
	return value
}

// Validate checks an object against the schema.
func (s *structure) Validate(content map[string]any) (errs field.ErrorList) {
	for _, err := range s.validator.Validate(content).Errors {
		errs = append(errs, fieldError(err))
	}
	return errs
}

func fieldError(err error) *field.Error {
	invalid, ok := err.(*openapierrors.Validation)
	if !ok {
		return field.Invalid(nil, "", err.Error())
	}
	var path *field.Path
	if name := strings.TrimPrefix(invalid.Name, "."); name != "" {
		path = field.NewPath(name)
	}
	value := invalid.Value
	if value == nil {
		value = ""
	}
	limit, _ := invalid.Valid.(int64)
	count, _ := invalid.Value.(int64)
	switch invalid.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(path, "")
	case openapierrors.EnumFailCode:
		return field.NotSupported(path, invalid.Value, texts(invalid.Values))
	case openapierrors.TooLongFailCode:
		return field.TooLong(path, "", int(limit))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(path, int(count), int(limit))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(path, value, err.Error())
	default:
		return field.Invalid(path, value, err.Error())
	}
}

func texts(values []any) []string {
	found := make([]string, len(values))
	for i, v := range values {
		if s, ok := v.(string); ok {
			found[i] = s
			continue
		}
		data, _ := json.Marshal(v) // came from JSON
		found[i] = string(data)
	}
	return found
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
