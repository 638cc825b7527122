// Package patch applies JSON patches, JSON merge patches and strategic merge patches to objects,
// and rejects what an API server rejects.
package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// maxOperations limits the operations of a JSON patch, and maxCopied the bytes that they may copy in total.
const (
	maxOperations = 10000
	maxCopied     = 3 << 20
)

func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }

// Patch is a client's patch.
type Patch struct {
	Type types.PatchType
	Data []byte
	// Refuse makes unknown and duplicate fields an error. Otherwise Apply returns them as problems.
	Refuse bool
}

// Apply sets into to o with the patch applied. Neither o nor the patch is changed. Errors are those that an API server
// returns.
func (p Patch) Apply(o, into runtime.Object) (problems []error, err error) {
	if p.Type == types.StrategicMergePatchType {
		return p.applyStrategic(o, into)
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	patched, problems, err := p.applyJSON(data)
	if err != nil {
		return nil, err
	}
	more, err := decode(patched, into)
	if err != nil {
		return nil, Invalid(string(patched), err)
	}
	return p.checkProblems(string(patched), append(problems, more...))
}

// checkProblems returns the problems of a patched object, as an error if Refuse is set.
func (p Patch) checkProblems(patched string, problems []error) ([]error, error) {
	if p.Refuse && len(problems) > 0 {
		return nil, Invalid(patched, runtime.NewStrictDecodingError(problems))
	}
	return problems, nil
}

func (p Patch) applyJSON(data []byte) (patched []byte, problems []error, err error) {
	if p.Type == types.JSONPatchType {
		return p.applyOperations(data)
	}
	var content map[string]any
	if problems, err = kjson.UnmarshalStrict(p.Data, &content); err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	patched, err = jsonpatch.MergePatch(data, p.Data)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return patched, problems, nil
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p Patch) applyOperations(data []byte) (patched []byte, problems []error, err error) {
	var operations []operation
	if problems, err = kjson.UnmarshalStrict(p.Data, &operations); err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	for i, problem := range problems {
		problems[i] = fmt.Errorf("json patch %w", problem)
	}
	decoded, err := jsonpatch.DecodePatch(p.Data)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(decoded) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(decoded)))
	}
	patched, err = applySafely(decoded, data)
	if err != nil {
		return nil, nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return patched, problems, nil
}

// applySafely applies a JSON patch. The library panics on some malformed patches.
func applySafely(p jsonpatch.Patch, data []byte) (patched []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the patch cannot be applied: %v", r)
		}
	}()
	return p.Apply(data)
}

func (p Patch) applyStrategic(o, into runtime.Object) (problems []error, err error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var changes map[string]any
	if problems, err = kjson.UnmarshalStrict(p.Data, &changes); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	patched, err := mergeSafely(content, changes, into)
	if err != nil {
		return nil, strategicError(err)
	}
	more, err := fill(patched, into)
	if err != nil {
		return nil, Invalid(fmt.Sprintf("%+v", changes), err)
	}
	return p.checkProblems(fmt.Sprintf("%+v", changes), append(problems, more...))
}

// mergeSafely applies a strategic merge patch. The library panics on some malformed patches.
func mergeSafely(content, changes map[string]any, like runtime.Object) (patched map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", mergepatch.ErrBadPatchFormatForPrimitiveList, r)
		}
	}()
	return strategicpatch.StrategicMergeMapPatch(content, changes, like)
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists):
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	default:
		return err
	}
}

// decode decodes JSON into an object. The problems are unknown and duplicate fields.
func decode(data []byte, into runtime.Object) (problems []error, err error) {
	if u, ok := into.(*unstructured.Unstructured); ok {
		return nil, u.UnmarshalJSON(data)
	}
	return kjson.UnmarshalStrict(data, into)
}

func fill(content map[string]any, into runtime.Object) (problems []error, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, into, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return strict.Errors(), nil
	}
	return nil, err
}

// Invalid is the error for a patch whose result is not a valid object.
func Invalid(value string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())})
}
