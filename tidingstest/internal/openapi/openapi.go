// Package openapi describes the Go types of resources as OpenAPI v3 documents that are complete
// enough for kubectl validate and explain.
package openapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidings/tidings/tidingstest/internal/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Schema is a JSON schema or a part of one.
type Schema = map[string]any

// Document returns the OpenAPI v3 document of the resources of one group and version.
func Document(gv schema.GroupVersion, resources []*api.Resource, title, version string) Schema {
	b := builder{schemas: Schema{}}
	paths := Schema{}
	for _, r := range resources {
		b.addResource(r)
		maps.Copy(paths, pathsOf(r))
	}
	return Schema{
		"openapi":    "3.0.0",
		"info":       Schema{"title": title, "version": version},
		"paths":      paths,
		"components": Schema{"schemas": b.schemas},
	}
}

// builder collects the schemas of types.
type builder struct{ schemas Schema }

func (b builder) addResource(r *api.Resource) {
	name := r.GroupVersion().String() + "." + r.Kind
	if r.BuiltIn {
		made, err := scheme.Scheme.New(r.GroupVersionKind())
		if err != nil {
			return
		}
		t := reflect.TypeOf(made).Elem()
		b.schemaOf(t)
		name = nameOf(t)
	} else {
		meta := b.schemaOf(reflect.TypeFor[metav1.ObjectMeta]())
		b.schemas[name] = customSchema(r, meta)
	}
	b.schemas[name].(Schema)["x-kubernetes-group-version-kind"] = []any{kindOf(r)}
}

// customSchema is the schema of a custom resource: that of its CRD, or one that allows everything.
func customSchema(r *api.Resource, meta Schema) Schema {
	s := Schema{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if r.Schema != nil {
		s = maps.Clone(r.Schema)
	}
	properties := Schema{}
	if given, ok := s["properties"].(map[string]any); ok {
		maps.Copy(properties, given)
	}
	properties["apiVersion"], properties["kind"], properties["metadata"] = Schema{"type": "string"}, Schema{"type": "string"}, meta
	s["properties"] = properties
	return s
}

func kindOf(r *api.Resource) Schema {
	return Schema{"group": r.Group, "version": r.Version, "kind": r.Kind}
}

// nameOf returns the name of a type's schema: its package path with the domain reversed, and its name.
func nameOf(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	domain, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// schemaOf returns the schema of a type, which for a struct is a reference.
func (b builder) schemaOf(t reflect.Type) Schema {
	if t.Kind() == reflect.Pointer {
		return b.schemaOf(t.Elem())
	}
	if s, ok := scalar(t); ok {
		return s
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return Schema{"type": "array", "items": b.schemaOf(t.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": b.schemaOf(t.Elem())}
	case reflect.Struct:
		return b.reference(t)
	default:
		return Schema{}
	}
}

// described is a type that declares its OpenAPI encoding.
type described interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

func scalar(t reflect.Type) (Schema, bool) {
	if d, ok := reflect.New(t).Interface().(described); ok {
		s := Schema{}
		if types := d.OpenAPISchemaType(); len(types) > 0 {
			s["type"] = types[0]
		}
		if format := d.OpenAPISchemaFormat(); format != "" {
			s["format"] = format
		}
		return s, true
	}
	switch t.Kind() {
	case reflect.String:
		return Schema{"type": "string"}, true
	case reflect.Bool:
		return Schema{"type": "boolean"}, true
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return Schema{"type": "integer", "format": "int64"}, true
	case reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return Schema{"type": "integer", "format": "int32"}, true
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number", "format": "double"}, true
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return Schema{"type": "string", "format": "byte"}, true
		}
	}
	return nil, false
}

func (b builder) reference(t reflect.Type) Schema {
	name := nameOf(t)
	if _, done := b.schemas[name]; !done {
		properties := Schema{}
		s := Schema{"type": "object", "properties": properties}
		b.schemas[name] = s // before its fields, which may refer to it
		doc := docOf(t)
		if text := doc[""]; text != "" {
			s["description"] = text
		}
		b.addFields(t, doc, properties)
	}
	return Schema{"$ref": "#/components/schemas/" + name}
}

func docOf(t reflect.Type) map[string]string {
	if d, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

func (b builder) addFields(t reflect.Type, doc map[string]string, properties Schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			b.addFields(f.Type, docOf(f.Type), properties)
		case name != "":
			properties[name] = b.property(f, doc[name])
		}
	}
}

// property returns the schema of a field. OpenAPI requires an allOf around a reference that has siblings.
func (b builder) property(f reflect.StructField, doc string) Schema {
	s := b.schemaOf(f.Type)
	if _, ref := s["$ref"]; ref {
		s = Schema{"allOf": []any{s}}
	}
	if doc != "" {
		s["description"] = doc
	}
	if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
		s["x-kubernetes-patch-strategy"] = strategy
	}
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		s["x-kubernetes-patch-merge-key"] = key
	}
	return s
}

// pathsOf describes a resource's requests as far as kubectl needs it: which kind a path has, and
// that writes support dry run and field validation.
func pathsOf(r *api.Resource) Schema {
	prefix := "/apis/" + r.GroupVersion().String()
	if r.Group == "" {
		prefix = "/api/" + r.Version
	}
	if r.Namespaced {
		prefix += "/namespaces/{namespace}"
	}
	collection := prefix + "/" + r.Resource
	return Schema{
		collection:             Schema{"get": operation(r, "list"), "post": operation(r, "post")},
		collection + "/{name}": Schema{"get": operation(r, "get"), "put": operation(r, "put"), "patch": operation(r, "patch")},
	}
}

func operation(r *api.Resource, action string) Schema {
	var parameters []any
	for _, name := range []string{"dryRun", "fieldManager", "fieldValidation"} {
		parameters = append(parameters, Schema{"name": name, "in": "query", "schema": Schema{"type": "string"}})
	}
	return Schema{
		"parameters":                      parameters,
		"responses":                       Schema{"200": Schema{"description": "OK"}},
		"x-kubernetes-action":             action,
		"x-kubernetes-group-version-kind": kindOf(r),
	}
}
