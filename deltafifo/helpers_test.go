package deltafifo

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

type (
	thing = metav1.PartialObjectMetadata
	delta = object.Delta[*thing]
)

func newThing(name string, uid, version int) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("u", uid)), ResourceVersion: strconv.Itoa(version)}}
}

func change(t object.DeltaType, o *thing) delta {
	return delta{Key: object.KeyOf(o), Object: o, Type: t}
}

func update(from, to *thing) delta {
	return delta{Key: object.KeyOf(to), Object: to, Old: from, Type: object.Updated}
}

// model is what is known, by key.
type model map[object.Key]*thing

// all iterates over the model like a store does.
func (m model) all() iter.Seq2[object.Key, *thing] {
	return func(yield func(object.Key, *thing) bool) {
		for _, k := range slices.SortedFunc(maps.Keys(m), object.Key.Compare) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

func (m model) known(Part) iter.Seq2[object.Key, *thing] { return m.all() }

// apply does what a consumer of the queue does.
func (m model) apply(deltas []delta) {
	for _, d := range deltas {
		if d.Type == object.Deleted {
			delete(m, d.Key)
		} else if d.Type != object.Sync {
			m[d.Key] = d.Object
		}
	}
}

func (m model) String() string {
	s := ""
	for k, o := range m.all() {
		s += fmt.Sprintf("%s=%s/%s ", k, o.UID, o.ResourceVersion)
	}
	return s
}

// text writes deltas for comparison: one a word, as Type:name/uid/version, with what matters besides.
func text(deltas []delta) string {
	s := ""
	for i, d := range deltas {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%s:%s/%s/%s", d.Type, d.Key, d.Object.UID, d.Object.ResourceVersion)
		if d.Old != nil {
			s += "<" + d.Old.ResourceVersion
		}
		if d.Initial {
			s += "+initial"
		}
		if d.FinalStateUnknown {
			s += "+missed"
		}
	}
	return s
}
