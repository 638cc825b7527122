package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestComparison compares a store with a server that differs in every way, and with objects that cannot be decoded.
func TestComparison(t *testing.T) {
	inf, _ := newSaved(t, t.TempDir(), false)
	fill(inf, 40, 1)
	snap := inf.store.Snapshot()
	name := func(i int) object.Key { return object.Key{Namespace: "shop", Name: fmt.Sprintf("s-%04d", i)} }
	c := newComparison(snap, "", []reflector.Skipped{{Key: name(0)}, {Key: name(1)}, {Key: name(99)}})
	c.found = &DivergedError{ResourceVersion: "1999"}
	list := func(i int, change func(o *corev1.ConfigMap)) {
		o := &corev1.ConfigMap{}
		if held, ok := snap.Get(name(i)); ok {
			o = held.DeepCopy()
		}
		o.Namespace, o.Name = name(i).Namespace, name(i).Name
		change(o)
		c.listed(o)
	}
	for i := range 30 { // 30 and more are not listed
		list(i, func(o *corev1.ConfigMap) {
			switch {
			case i == 0: // skipped
				o.ResourceVersion = "1500"
			case i >= 2 && i < 4:
				o.ResourceVersion = "1500"
			case i == 4:
				o.UID = "other"
			}
		})
	}
	list(50, func(*corev1.ConfigMap) {})
	list(99, func(*corev1.ConfigMap) {}) // skipped
	c.finish()
	if c.found.Missing != 1 || c.found.Outdated != 3 || c.found.Extra != 10 || c.found.objects() != 14 {
		t.Errorf("found %+v, want 1 missing, 3 outdated, 10 extra", c.found)
	}
	if len(c.found.First) != mostNamed || c.found.First[0] != name(2) || c.found.First[3] != name(50) {
		t.Errorf("named %v", c.found.First)
	}
	want := "an audit found that the store differs from the server at resource version 1999: 1 objects are missing, 10 should not be there, " +
		"3 are of another version, such as " + fmt.Sprint(c.found.First)
	if got := c.found.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAuditNotes counts what audits find.
func TestAuditNotes(t *testing.T) {
	var a auditor[settings]
	a.note(&DivergedError{}, nil)
	a.note(&DivergedError{Missing: 2, Extra: 1, Outdated: 4}, nil)
	a.note(nil, errOtherVersion)
	st := a.snapshot()
	if st.Completed != 2 || st.Inconclusive != 1 || st.Differences != 7 || st.Heals != 1 || st.Err != errOtherVersion || st.LastCompleted.IsZero() {
		t.Errorf("status %+v", st)
	}
	a.note(&DivergedError{}, nil)
	if st := a.snapshot(); st.Err != nil || st.Completed != 3 {
		t.Errorf("status %+v after one that compared", st)
	}
}

// panicking is a source that does not survive an audit.
type panicking struct{ answering }

func (p *panicking) ListMetadata(context.Context, source.ListOptions[*metav1.PartialObjectMetadata], func(*metav1.PartialObjectMetadata) error) (source.ListResult, error) {
	panic("oh")
}

// TestAuditOfASourceThatPanics: the audit has compared nothing, and says why.
func TestAuditOfASourceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startOf(t, &panicking{})
		synctest.Wait()
		a := &inf.currentParts()[0].audit
		a.audit()
		if st := a.snapshot(); st.Inconclusive != 1 || st.Completed != 0 || st.Err == nil || !strings.Contains(st.Err.Error(), "panicked: oh") {
			t.Errorf("status %+v", st)
		}
	})
}
