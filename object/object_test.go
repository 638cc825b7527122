package object_test

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

func ExampleParseKey() {
	key, err := object.ParseKey("shop/web-7")
	fmt.Println(key.Namespace, key.Name, err)
	_, err = object.ParseKey("a/b/c")
	fmt.Println(err)
	// Output:
	// shop web-7 <nil>
	// key "a/b/c": want name or namespace/name
}

func ExampleCompareResourceVersions() {
	c, err := object.CompareResourceVersions("99", "100")
	fmt.Println(c < 0, err)
	_, err = object.CompareResourceVersions("99", "opaque")
	fmt.Println(err)
	// Output:
	// true <nil>
	// resource version "opaque" is not a decimal number, so versions of this server cannot be ordered
}

func TestParseKeyReadsWhatStringWrites(t *testing.T) {
	for _, key := range []object.Key{{Name: "node-1"}, {Namespace: "a", Name: "b"}, {Namespace: "a", Name: "b.c-d"}} {
		if got, err := object.ParseKey(key.String()); got != key || err != nil {
			t.Errorf("ParseKey(%q) = %v, %v", key, got, err)
		}
	}
	for _, bad := range []string{"", "/", "a/", "/b", "a/b/c"} {
		if key, err := object.ParseKey(bad); err == nil {
			t.Errorf("ParseKey(%q) = %v, want an error", bad, key)
		}
	}
}

func TestKeyOrder(t *testing.T) {
	sorted := []object.Key{{Name: "z"}, {Namespace: "a", Name: "b"}, {Namespace: "a", Name: "c"}, {Namespace: "a-b", Name: "a"}, {Namespace: "b", Name: "a"}}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := a.Compare(b); cmp.Compare(got, 0) != cmp.Compare(i, j) {
				t.Errorf("%v compared with %v: %d", a, b, got)
			}
		}
	}
}

// FuzzResourceVersions compares with integers of any length.
func FuzzResourceVersions(f *testing.F) {
	for _, pair := range [][2]string{{"1", "2"}, {"9", "10"}, {"007", "7"}, {"", "0"}, {"18446744073709551616", "18446744073709551615"}, {"x", "1"}, {"-1", "1"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c, err := object.CompareResourceVersions(a, b)
		x, okA := number(a)
		y, okB := number(b)
		if (err == nil) != (okA && okB) {
			t.Fatalf("compare %q with %q: %v", a, b, err)
		}
		if err == nil && cmp.Compare(c, 0) != x.Cmp(y) {
			t.Errorf("compare %q with %q: %d, as numbers %d", a, b, c, x.Cmp(y))
		}
		newest := object.MaxResourceVersion(a, b)
		if newest != a && newest != b {
			t.Errorf("the newer of %q and %q is %q", a, b, newest)
		}
		if object.OlderResourceVersion(newest, a) || object.OlderResourceVersion(newest, b) {
			t.Errorf("the newer of %q and %q is %q, which is older than one of them", a, b, newest)
		}
	})
}

func number(s string) (*big.Int, bool) {
	if strings.Trim(s, "0123456789") != "" {
		return nil, false
	}
	n, _ := new(big.Int).SetString("0"+s, 10)
	return n, true
}

func TestDeltaTypeNames(t *testing.T) {
	for typ, want := range map[object.DeltaType]string{object.Added: "Added", object.Sync: "Sync", 0: "DeltaType(0)", object.Sync + 1: "DeltaType(6)", 77: "DeltaType(77)"} {
		if got := typ.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestIsNil(t *testing.T) {
	var none *metav1.PartialObjectMetadata
	for name, tt := range map[string]struct {
		o    object.Object
		want bool
	}{"nothing": {nil, true}, "a nil pointer": {none, true}, "an object": {&metav1.PartialObjectMetadata{}, false}, "a value": {value{}, false}} {
		if got := object.IsNil(tt.o); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// value is an object that is not a pointer.
type value struct{ object.Object }

func TestItems(t *testing.T) {
	items := object.Items[*metav1.PartialObjectMetadata]{}
	for _, name := range []string{"b", "a", "c"} {
		items = append(items, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	var seen []string
	for key, item := range items.All() {
		seen = append(seen, key.String())
		if key != object.KeyOf(item) {
			t.Errorf("%v has the key %v", item, key)
		}
	}
	if items.Len() != 3 || strings.Join(seen, " ") != "shop/b shop/a shop/c" {
		t.Errorf("%d items: %v", items.Len(), seen)
	}
	for range items.All() {
		break
	}
}

// TestOlder: versions that cannot be ordered are not older.
func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		older bool
		max   string
	}{
		{"4", "5", true, "5"}, {"5", "4", false, "5"}, {"9", "10", true, "10"}, {"10", "9", false, "10"}, {"5", "5", false, "5"},
		{"", "5", false, "5"}, {"5", "", false, "5"}, {"", "", false, ""}, {"x", "5", false, "5"}, {"5", "x", false, "x"}, {"1", "x", false, "x"},
	} {
		if got := object.OlderResourceVersion(tt.a, tt.b); got != tt.older {
			t.Errorf("%q is older than %q: %t", tt.a, tt.b, got)
		}
		if got := object.MaxResourceVersion(tt.a, tt.b); got != tt.max {
			t.Errorf("the newer of %q and %q is %q, want %q", tt.a, tt.b, got, tt.max)
		}
	}
}
