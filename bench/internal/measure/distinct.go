package measure

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// Distinct computes how much memory decoded pods would take if every part that several of them have
// were stored once, with nothing around them. No cache of such objects can take less, however well
// it shares.
type Distinct struct {
	Objects      int
	Unstructured bool
}

// Run computes it. The context is not used.
func (d Distinct) Run(context.Context) (Metrics, error) {
	pods, err := corpus.Pods.Make(d.Objects)
	if err != nil {
		return nil, err
	}
	p := parts{ids: map[string]uint64{}, maps: map[mapSize]int{}}
	for _, pod := range pods {
		object := reflect.ValueOf(pod)
		if d.Unstructured {
			content, err := untyped(pod)
			if err != nil {
				return nil, err
			}
			object = reflect.ValueOf(content)
		}
		p.value(nil, object)
	}
	return Metrics{"distinct": float64(p.bytes) / float64(len(pods))}, nil
}

func untyped(pod corpus.Object) (map[string]any, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode a pod: %w", err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("decode a pod: %w", err)
	}
	return u.Object, nil
}

// parts counts the memory of distinct allocations. Two are the same if they have the same type and
// content, where pointers count as the numbers of the parts they point to.
type parts struct {
	ids   map[string]uint64
	maps  map[mapSize]int
	bytes int
}

// part returns the number of a part, as text. A new one takes this much memory.
func (p *parts) part(kind string, content []byte, size func() int) []byte {
	key := kind + " " + string(content)
	id, known := p.ids[key]
	if !known {
		id = uint64(len(p.ids) + 1)
		p.ids[key] = id
		p.bytes += size()
	}
	return binary.AppendUvarint(nil, id)
}

// none stands for what takes no memory.
const none = 0

// value appends the content of v to b.
func (p *parts) value(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float64:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(v.Float()))
	case reflect.Struct:
		for i := range v.NumField() {
			b = p.value(b, v.Field(i))
		}
		return b
	}
	if v.IsZero() || v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface && v.Len() == 0 {
		return append(b, none)
	}
	return append(b, p.reference(v)...)
}

// reference returns the number of the part that v refers to. Strings and bytes count as long as
// they are: several can share an allocation.
func (p *parts) reference(v reflect.Value) []byte {
	t := v.Type()
	switch v.Kind() {
	case reflect.String:
		return p.part("string", []byte(v.String()), v.Len)
	case reflect.Pointer:
		return p.allocated(v.Elem())
	case reflect.Interface:
		if e := v.Elem(); e.Kind() == reflect.Map || e.Kind() == reflect.Pointer { // an interface holds these themselves
			return p.reference(e)
		} else if e.Kind() == reflect.Bool { // the runtime has both
			return p.part("bool", p.value(nil, e), func() int { return none })
		}
		return p.allocated(v.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return p.part(t.String(), v.Bytes(), v.Len)
		}
		var elements []byte
		for i := range v.Len() {
			elements = p.value(elements, v.Index(i))
		}
		return p.part(t.String(), elements, func() int { return rounded(v.Len() * int(t.Elem().Size())) })
	case reflect.Map:
		return p.part(t.String(), p.entries(v), func() int { return p.mapMemory(mapSize{t, v.Len()}) })
	}
	panic("a " + t.String() + " in an API object")
}

func (p *parts) allocated(v reflect.Value) []byte {
	return p.part("*"+v.Type().String(), p.value(nil, v), func() int { return rounded(int(v.Type().Size())) })
}

// entries returns the content of a map.
func (p *parts) entries(v reflect.Value) (content []byte) {
	var entries []string
	for _, key := range v.MapKeys() {
		entries = append(entries, string(p.value(p.value(nil, key), v.MapIndex(key))))
	}
	slices.Sort(entries)
	for _, e := range entries {
		content = append(content, e...)
	}
	return content
}

// rounded returns how many bytes Go allocates for so many, which contain pointers.
func rounded(bytes int) int {
	const word = 8
	return word * cap(append([]*byte(nil), make([]*byte, (bytes+word-1)/word)...))
}

// mapSize is what determines the memory of a map: its type and its number of entries.
type mapSize struct {
	reflect.Type
	entries int
}

// mapMemory returns the memory of a map, without that of its keys and values.
func (p *parts) mapMemory(of mapSize) int {
	if size, known := p.maps[of]; known {
		return size
	}
	keys := make([]reflect.Value, of.entries)
	for i := range keys {
		keys[i] = reflect.ValueOf(strconv.Itoa(i)).Convert(of.Key())
	}
	zero := reflect.Zero(of.Elem())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := reflect.MakeMapWithSize(of.Type, of.entries)
	for _, key := range keys {
		m.SetMapIndex(key, zero)
	}
	runtime.ReadMemStats(&after)
	p.maps[of] = int(after.TotalAlloc - before.TotalAlloc)
	return p.maps[of]
}
