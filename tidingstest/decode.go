package tidingstest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxRequestBytes limits the body of a request, as on a real server.
const maxRequestBytes = 3 << 20

// readBody reads the body of a request.
func (x *exchange) readBody() ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(x.r.Body, maxRequestBytes+1))
	switch {
	case err != nil:
		return nil, protocol.ErrCut
	case len(data) > maxRequestBytes:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxRequestBytes))
	}
	return data, nil
}

// bodyType returns the media type of the body, or JSON if it is unset. protobuf says whether protobuf is allowed.
func (x *exchange) bodyType(protobuf bool) (string, error) {
	media := x.r.Header.Get("Content-Type")
	if media == "" {
		return protocol.JSON, nil
	}
	media, _, err := mime.ParseMediaType(media)
	if err == nil && (media == protocol.JSON || media == protocol.YAML || media == protocol.Protobuf && protobuf) {
		return media, nil
	}
	return "", unsupportedMedia(protocol.MediaTypes)
}

func unsupportedMedia(accepted string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + accepted,
	}}
}

// validation is how a request wants unknown fields to be handled.
type validation string

func (v validation) strict() bool { return v == metav1.FieldValidationStrict }
func (v validation) ignore() bool { return v == metav1.FieldValidationIgnore }

// problems warns of unknown and duplicate fields, or ignores them. With strict validation it returns false.
func (x *exchange) problems(v validation, problems []error) bool {
	if len(problems) > 0 && v.strict() {
		return false
	}
	if !v.ignore() {
		for _, p := range problems {
			x.warn(p.Error())
		}
	}
	return true
}

// warn adds a warning header, unless the response has begun.
func (x *exchange) warn(text string) {
	x.w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
}

// decodeObject decodes the object in the body, which must be of the resource's kind.
func (x *exchange) decodeObject(v validation) (object.Object, error) {
	kind := x.resource.GroupVersionKind()
	media, err := x.bodyType(x.resource.BuiltIn)
	if err != nil {
		return nil, err
	}
	data, err := x.readBody()
	if err != nil {
		return nil, err
	}
	if !x.resource.BuiltIn {
		return x.decodeCustom(data, media, v)
	}
	o, err := x.decodeBuiltIn(data, media, kind, rest.NewObject(x.resource), v)
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	rest.Received(o.(object.Object))
	return o.(object.Object), nil
}

// decodeBuiltIn decodes an object of a kind in client-go's scheme.
func (x *exchange) decodeBuiltIn(data []byte, media string, kind schema.GroupVersionKind, into runtime.Object, v validation) (runtime.Object, error) {
	o, got, err := serializer(media).Decode(data, &kind, into)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && o != nil {
		if x.problems(v, strict.Errors()) {
			err = nil
		}
	}
	switch {
	case err != nil && got != nil && got.Kind != "":
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, kind.Kind, err))
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", kind.Kind, err, summary(data)))
	case got.Kind != kind.Kind:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: converting (%s.%s) to (%s.%s): unknown conversion",
			got.Kind, got.Version, kind.Kind, got.Version, got.Kind, kind.Group, kind.Kind))
	case got.GroupVersion() != kind.GroupVersion():
		return nil, wrongVersion(got.GroupVersion(), kind.GroupVersion())
	}
	return o, nil
}

func wrongVersion(got, want schema.GroupVersion) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got, want))
}

func serializer(media string) runtime.Decoder {
	if media == protocol.Protobuf {
		return protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	}
	return kubejson.NewSerializerWithOptions(kubejson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		kubejson.SerializerOptions{Yaml: media == protocol.YAML, Strict: true})
}

func summary(data []byte) string {
	const length = 30
	switch short := data[:min(len(data), length)]; {
	case len(data) == 0:
		return "<empty>"
	case data[0] != '{':
		return hex.EncodeToString(short) + ending(len(data) > length)
	default:
		return string(short) + ending(len(data) > length)
	}
}

func ending(cut bool) string {
	if cut {
		return " ..."
	}
	return ""
}

// decodeCustom decodes an object of a custom resource.
func (x *exchange) decodeCustom(data []byte, media string, v validation) (object.Object, error) {
	var err error
	if media == protocol.YAML {
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
		}
	}
	var content map[string]any
	duplicates, err := kjson.UnmarshalStrict(data, &content)
	if err != nil {
		return nil, x.unrecognized(err, data)
	}
	if err := x.customProblems(v, duplicates); err != nil {
		return nil, badRequest(err)
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "" {
		return nil, x.unrecognized(runtime.NewMissingKindErr(string(data)), data)
	}
	if err := x.checkCustom(u, v); err != nil {
		return nil, badRequest(err)
	}
	if x.resource.Structure != nil {
		x.resource.Structure.DropNulls(u.Object)
	}
	if err := x.applySchema(u, v); err != nil {
		return nil, badRequest(err)
	}
	return u, nil
}

func (x *exchange) unrecognized(err error, data []byte) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", x.resource.Kind, err, summary(data)))
}

// applySchema prunes and defaults a custom object by its schema.
func (x *exchange) applySchema(u *unstructured.Unstructured, v validation) error {
	if x.resource.Structure == nil {
		return nil
	}
	var problems []error
	for _, path := range x.resource.Structure.Prune(u.Object) {
		problems = append(problems, fmt.Errorf("unknown field %q", path))
	}
	if err := x.customProblems(v, problems); err != nil {
		return err
	}
	x.resource.Structure.Default(u.Object)
	return nil
}

// customProblems warns of unknown and duplicate fields of a custom object, or returns an error, as the request wants
// it.
func (x *exchange) customProblems(v validation, problems []error) error {
	if x.problems(v, problems) {
		return nil
	}
	return fmt.Errorf("%s in version %q cannot be handled as a %s: %w",
		x.resource.Kind, x.resource.Version, x.resource.Kind, runtime.NewStrictDecodingError(problems))
}

// checkCustom checks the fields of a custom object that all objects have. The registry checks its kind, after its
// version.
func (x *exchange) checkCustom(u *unstructured.Unstructured, v validation) error {
	if u.Object == nil || u.GetKind() == "" {
		return apierrors.NewBadRequest(runtime.NewMissingKindErr("the object").Error())
	}
	want := x.resource.GroupVersionKind()
	if got := u.GroupVersionKind(); got.GroupVersion() != want.GroupVersion() {
		return wrongVersion(got.GroupVersion(), want.GroupVersion())
	}
	problems, err := cleanMetadata(u)
	if err != nil {
		return fmt.Errorf("%s in version %q cannot be handled as a %s: %w", want.Kind, want.Version, want.Kind, err)
	}
	return x.customProblems(v, problems)
}

// badRequest returns an error as it is if it has a status, else as a bad request.
func badRequest(err error) error {
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

// cleanMetadata rejects metadata of the wrong types, and drops and returns unknown fields of metadata.
func cleanMetadata(u *unstructured.Unstructured) (problems []error, err error) {
	data, err := json.Marshal(u.Object["metadata"])
	if err != nil {
		return nil, err
	}
	var clean metav1.ObjectMeta
	if problems, err = kjson.UnmarshalStrict(data, &clean, kjson.DisallowUnknownFields); err != nil {
		return nil, err
	}
	for i, problem := range problems {
		problems[i] = errors.New(strings.Replace(problem.Error(), `"`, `"metadata.`, 1))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&clean)
	if err != nil {
		return nil, err
	}
	if content["creationTimestamp"] == nil {
		delete(content, "creationTimestamp")
	}
	u.Object["metadata"] = content
	return problems, nil
}

// deleteOptions decodes the options of a deletion from the body or, if that is empty, from the URL.
func (x *exchange) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	data, err := x.readBody()
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		err := protocol.DecodeQuery(x.request.Query, options)
		return options, err
	}
	media, err := x.bodyType(true)
	if err != nil {
		return nil, err
	}
	info, ok := runtime.SerializerInfoForMediaType(metascheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no serializer for " + media))
	}
	kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	o, _, err := metascheme.Codecs.DecoderToVersion(info.Serializer, kind.GroupVersion()).Decode(data, &kind, options)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if o != runtime.Object(options) {
		return nil, apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	return options, nil
}
