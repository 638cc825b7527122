package object_test

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"testing"

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

// FuzzResourceVersions compares with numbers of any length.
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
	for typ, want := range map[object.DeltaType]string{object.Added: "Added", object.Sync: "Sync", 0: "DeltaType(0)", 77: "DeltaType(77)"} {
		if got := typ.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
