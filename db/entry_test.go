package db

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/storage"
)

var allEntries = cmp.AllowUnexported(entry{}, statement{})

func someEntry() entry {
	return entry{schema: 13, base: 1 << 40, origin: "copy", reserve: true, statements: []statement{
		{text: "INSERT INTO t (a) VALUES (?)", args: []any{int64(-7)}, changes: 1},
		{text: "\n\tWITH x AS (SELECT 1) UPDATE t SET a = ?", args: []any{nil, "text", []byte{0, 0xff}, []byte{}, ""}, changes: 300},
		{text: "INSERT INTO t (a) VALUES (?)", args: []any{}, changes: 2},
	}}
}

// TestEntry reads what was encoded.
func TestEntry(t *testing.T) {
	t.Parallel()
	for _, want := range []entry{someEntry(), {statements: []statement{}}} {
		got, err := decodeEntry(want.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, allEntries); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestEntryRefused reads what this program does not make.
func TestEntryRefused(t *testing.T) {
	t.Parallel()
	sealed := func(b []byte) []byte { return storage.SealBlock(append(make([]byte, storage.BlockHeader), b...)) }
	one := func(text string) []byte {
		e := entry{statements: []statement{{text: text}}}
		return e.encode()
	}
	whole := someEntry()
	b := whole.encode()
	newer := append([]byte{2}, b[1:]...)
	for name, b := range map[string][]byte{
		"nothing":             nil,
		"a newer format":      newer,
		"no body":             sealed(nil),
		"a part":              sealed(b[storage.BlockHeader : len(b)-1]),
		"more":                sealed(append(b[storage.BlockHeader:len(b):len(b)], 0)),
		"another byte":        append(b[:len(b)-1:len(b)-1], 'x'),
		"too long":            make([]byte, maxEntry+1),
		"a pragma":            one("PRAGMA query_only = 1"),
		"another database":    one("ATTACH 'x' AS y"),
		"several statements":  one("DELETE FROM t; DROP TABLE t"),
		"an unknown argument": sealed([]byte{1, 1, 0, 0, 1, 9, 'D', 'E', 'L', 'E', 'T', 'E', ' ', 't', 't', 1, 0, 1, 1, 9}),
		"an unknown text":     sealed([]byte{1, 1, 0, 0, 0, 1, 0, 1, 0}),
	} {
		if e, err := decodeEntry(b); err == nil {
			t.Errorf("%s was read as %+v", name, e)
		}
	}
}

// FuzzEntry reads any bytes. What is read is encoded as something that is read in the same way.
func FuzzEntry(f *testing.F) {
	e := someEntry()
	f.Add(e.encode()[storage.BlockHeader:])
	f.Add([]byte{13, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := decodeEntry(storage.SealBlock(append(make([]byte, storage.BlockHeader), body...)))
		if err != nil {
			return
		}
		again, err := decodeEntry(e.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, again, allEntries); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}

// TestRecordable converts arguments as database/sql does.
func TestRecordable(t *testing.T) {
	t.Parallel()
	type name string
	text := "text"
	for _, c := range []struct{ arg, want any }{
		{7, int64(7)}, {true, int64(1)}, {false, int64(0)}, {name("n"), "n"}, {&text, "text"}, {(*string)(nil), nil},
		{[]byte(nil), nil}, {[]byte{}, []byte{}}, {millis{}, int64(0)},
	} {
		got, err := recordable(c.arg)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%T (-want +got):\n%s", c.arg, diff)
		}
	}
	if _, err := recordable(1.5); err == nil || !strings.Contains(err.Error(), "float64") {
		t.Errorf("got %v for a number that is not whole", err)
	}
}
