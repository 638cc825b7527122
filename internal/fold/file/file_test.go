package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
)

func TestRoundTrip(t *testing.T) {
	for name, opts := range bothOptions {
		for _, n := range []int{0, 1, 10, 1500} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				entries := pods(t, n)
				header, records, err := decode(encode(t, entries, opts), opts)
				if err != nil {
					t.Fatal(err)
				}
				mustEqualHeader(t, header, testHeader)
				mustEqual(t, records, entries)
			})
		}
	}
}

// TestRoundTripOfTemplates writes and reads objects that are patches, and continues to pack with their templates.
func TestRoundTripOfTemplates(t *testing.T) {
	for name, opts := range bothOptions {
		entries := similarPods(t, 60)
		_, records, err := decode(encode(t, entries, opts), opts)
		if err != nil {
			t.Fatal(name, err)
		}
		mustEqual(t, records, entries)
		var p fold.Packer
		templates := map[*fold.Dictionary]bool{}
		for i, record := range records {
			p.Adopt(record.Object)
			if d := record.Object.Dictionary(); d != nil {
				templates[d] = true
				if d.IsTemplate() != entries[i].record.Object.Dictionary().IsTemplate() {
					t.Errorf("%s: record %d is packed in another way", name, i)
				}
			}
		}
		if s := p.Stats(); s.Objects != len(entries) || s.Dictionaries != len(templates) {
			t.Errorf("%s: %+v of %d objects with %d dictionaries", name, s, len(entries), len(templates))
		}
	}
}

// TestWriterForgetsDictionaries: one that is needed again after many others is written again, and
// the writer keeps few alive.
func TestWriterForgetsDictionaries(t *testing.T) {
	first, others := similarPods(t, 60), pods(t, 1500)
	var buf bytes.Buffer
	w, err := NewWriter(&buf, testHeader, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []entry
	for range 20 {
		for _, entries := range [][]entry{first, others[1400:]} {
			w.held = max(w.held, maxHeld-first[0].record.Object.Dictionary().Size()) // as if there had been many
			all = append(all, entries...)
			if err := writeEntries(w, entries); err != nil {
				t.Fatal(err)
			}
			if len(w.dictionaries) > 5 {
				t.Fatalf("the writer holds %d dictionaries", len(w.dictionaries))
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.written < 20 {
		t.Errorf("%d dictionaries were written", w.written)
	}
	_, records, err := decode(buf.Bytes(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, records, all)
}

// TestRandomRecords writes records with strings and objects of any length.
func TestRandomRecords(t *testing.T) {
	r := testseed.Rand(t)
	text := func() string { return strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(1<<r.IntN(16))) }
	for name, opts := range bothOptions {
		var p fold.Packer
		var entries []entry
		for range 200 {
			data := []byte(text())
			record := Record{Namespace: text(), Name: text(), UID: text(), ResourceVersion: text(), Extra: text(), Object: p.Pack(data, nil)}
			entries = append(entries, entry{record, data})
		}
		_, records, err := decode(encode(t, entries, opts), opts)
		if err != nil {
			t.Fatal(name, err)
		}
		mustEqual(t, records, entries)
	}
}

// TestReadAndWriteAgain continues with the dictionaries of a file.
func TestReadAndWriteAgain(t *testing.T) {
	entries := pods(t, 1000)
	data := encode(t, entries, Options{})
	_, records, err := decode(data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		entries[i].record.Object = records[i].Object
	}
	again := encode(t, entries, Options{})
	if len(again) != len(data) {
		t.Errorf("written again, a file of %d bytes has %d", len(data), len(again))
	}
}

func TestEncryptedFilesShowNothing(t *testing.T) {
	entries := pods(t, 50)
	data := encode(t, entries, Options{Key: testKey})
	if bytes.Contains(data, []byte(entries[7].record.Name)) || bytes.Contains(data, []byte("cluster")) {
		t.Error("an encrypted file has a name in clear")
	}
	if bytes.Equal(data, encode(t, entries, Options{Key: testKey})) {
		t.Error("two files have the same bytes: the salt is not random")
	}
}

func TestKeys(t *testing.T) {
	entries := pods(t, 5)
	plain, sealed := encode(t, entries, Options{}), encode(t, entries, Options{Key: testKey})
	other := append(bytes.Clone(testKey[1:]), 'x')
	for name, c := range map[string]struct {
		data []byte
		key  []byte
		says string
	}{
		"no key":                    {sealed, nil, "there is no key"},
		"another key":               {sealed, other, "cannot be decrypted"},
		"not encrypted":             {plain, testKey, "not encrypted"},
		"short key":                 {sealed, testKey[1:], "31 bytes"},
		"claims to be encrypted":    {setFlags(plain, flagEncrypted), testKey, "checksum"},
		"claims to be in the clear": {setFlags(sealed, 0), nil, "checksum"},
	} {
		_, _, err := decode(c.data, Options{Key: c.key})
		if err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, ErrKey) && c.says != "checksum" {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := NewWriter(&bytes.Buffer{}, testHeader, Options{Key: testKey[1:]}); !errors.Is(err, ErrKey) {
		t.Errorf("writing with a short key: %v", err)
	}
}

func setFlags(data []byte, flags byte) []byte {
	out := bytes.Clone(data)
	out[len(magic)+2] = flags
	return out
}

func TestOtherVersion(t *testing.T) {
	data := encode(t, nil, Options{})
	data[len(magic)]++
	says := fmt.Sprintf("it is %d, this program reads %d", formatVersion+1, formatVersion)
	if _, _, err := decode(data, Options{}); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), says) {
		t.Errorf("a file of the next version: %v", err)
	}
}

func TestIdentity(t *testing.T) {
	if err := testHeader.Check(map[string]string{"cluster": "1234", "type": "v1/Pod", "trim": ""}); err != nil {
		t.Errorf("the same identity: %v", err)
	}
	err := testHeader.Check(map[string]string{"cluster": "5678", "type": "v1/Pod", "scope": ""})
	want := `file of something else: its cluster is "1234", not "5678"; its scope is "", not ""; its trim is "", not ""`
	if !errors.Is(err, ErrIdentity) || err.Error() != want {
		t.Errorf("another identity: %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	header := testHeader
	header.Identity = map[string]string{"scope": strings.Repeat("x", maxHeader)}
	if _, err := NewWriter(&bytes.Buffer{}, header, Options{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large header: %v", err)
	}
	w, err := NewWriter(&bytes.Buffer{}, testHeader, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Record{Extra: strings.Repeat("x", maxPayload)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large record: %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("closing after an error: %v", err)
	}
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	w, err := NewWriter(full, testHeader, Options{})
	if err != nil {
		t.Fatal(err)
	}
	writeErr := writeEntries(w, pods(t, 1000))
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "no space left") || writeErr == nil {
		t.Errorf("writing to a full disk: %v, then %v", writeErr, err)
	}
}

func TestLoopThatEndsEarly(t *testing.T) {
	r, err := NewReader(bytes.NewReader(encode(t, pods(t, 100), Options{})), Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Errorf("%d records", n)
	}
}
