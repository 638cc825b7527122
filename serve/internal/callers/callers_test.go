package callers

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestReviewKey: reviews that differ are not taken for one.
func TestReviewKey(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice"}
	one := authorizer.AttributesRecord{User: alice, FieldSelectorRequirements: fields.Requirements{
		{Operator: "=", Field: "x", Value: "a} {= y b"},
	}}
	two := authorizer.AttributesRecord{User: alice, FieldSelectorRequirements: fields.Requirements{
		{Operator: "=", Field: "x", Value: "a"}, {Operator: "=", Field: "y", Value: "b"},
	}}
	if reviewKey(one) == reviewKey(two) {
		t.Error(reviewKey(one))
	}
}
