// Package meta has the shape of the real one.
package meta

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

func Accessor(obj any) (metav1.Object, error) { return obj.(metav1.Object), nil }

func SetStatusCondition(conditions *[]metav1.Condition, c metav1.Condition) bool { return false }
