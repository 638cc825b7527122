package codec

import "testing"

// TestPrefixes splits length-prefixed strings, to the last byte.
func TestPrefixes(t *testing.T) {
	for _, tt := range []struct {
		in, s, rest string
		ok          bool
	}{
		{"\x02ab", "ab", "", true}, {"\x02abc", "ab", "c", true}, {"\x00", "", "", true},
		{"\x02a", "", "", false}, {"", "", "", false}, {"\x80", "", "", false},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", "", "", false},
	} {
		if s, rest, ok := cutPrefixed([]byte(tt.in)); string(s) != tt.s || string(rest) != tt.rest || ok != tt.ok {
			t.Errorf("%q: %q, %q, %t", tt.in, s, rest, ok)
		}
	}
}

// TestKind is cut from what it was appended to, and nothing is if any of it is missing.
func TestKind(t *testing.T) {
	for _, tt := range []struct{ apiVersion, name, message string }{{"v1", "Pod", "message"}, {"", "", "message"}, {"v1", "Pod", ""}} {
		data := AppendKind(nil, tt.apiVersion, tt.name)
		for n := range len(data) {
			if _, _, message, ok := CutKind(data[:n]); ok || message != nil || Received(data[:n]) != nil {
				t.Errorf("%+v: the first %d bytes have a kind", tt, n)
			}
		}
		apiVersion, name, message, ok := CutKind(append(data, tt.message...))
		if string(apiVersion) != tt.apiVersion || string(name) != tt.name || string(message) != tt.message || !ok {
			t.Errorf("%+v: %q, %q, %q, %t", tt, apiVersion, name, message, ok)
		}
	}
	if got := Received(AppendReceived([]byte{}, []byte("message"))); string(got) != "message" {
		t.Errorf("received %q", got)
	}
}
