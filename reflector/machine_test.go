package reflector_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/reflector"
)

var (
	errInvalid   = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	errExpired   = apierrors.NewResourceExpired("too old resource version: 5 (9)")
	errInternal  = apierrors.NewInternalError(errors.New("etcd is away"))
	errBusy      = apierrors.NewTooManyRequests("busy", 7)
	errMissing   = apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "things"}, "")
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "things"}, "", errors.New(`user "x" cannot watch resource "things"`))
	errTooLarge  = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
	}}
)

// scripted is a script, and all requests and sink calls that it should lead to, with their times.
type scripted struct {
	name    string
	opts    reflector.Options[thing]
	hooks   reflector.Hooks[thing]
	answers []answer
	want    string
}

func runScripts(t *testing.T, tests []scripted) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{answers: tt.answers, hooks: tt.hooks}
			tt.opts.WatchTimeout = time.Hour // no script sees a watch time out, whatever time it is given at random
			play(t, s, tt.opts, 6*time.Minute)
			want := strings.Fields(tt.want)
			if got := strings.Join(s.lines, "\n"); !slices.Equal(strings.Fields(got), want) {
				t.Errorf("got\n%s\nwant%s", got, strings.ReplaceAll(tt.want, "\t", ""))
			}
		})
	}
}
