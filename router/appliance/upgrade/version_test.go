package upgrade

import (
	"encoding/binary"
	"testing"
)

// TestCompare compares versions as git describes them.
func TestCompare(t *testing.T) {
	t.Parallel()
	early, late := "2026-01-01T00:00:00Z", "2026-01-01T02:00:00+01:00"
	for _, tc := range []struct {
		older, newer Version
		want         int
	}{
		{Version{Name: "v1.2.3", Date: late}, Version{Name: "v1.10.0", Date: early}, -1},
		{Version{Name: "v1.2.3-rc.1"}, Version{Name: "v1.2.3"}, -1},
		{Version{Name: "v1.2.3"}, Version{Name: "v1.2.3-1-gabcdef0"}, -1},
		{Version{Name: "v1.2.3-9-gabcdef0"}, Version{Name: "v1.2.3-10-gabcdef1-dirty"}, -1},
		{Version{Name: "v1.2.3-10-gabcdef0"}, Version{Name: "v1.2.4-rc.1"}, -1},
		{Version{Name: "v1.2.3"}, Version{Name: "v1.2.3"}, 0},
		{Version{Name: "abcdef0", Date: early}, Version{Name: "abcdef1", Date: late}, -1},
		{Version{Name: "v1.2.3", Date: early}, Version{Name: "abcdef1", Date: late}, -1},
		{Version{Name: "abcdef0", Date: early}, Version{Name: "abcdef1", Date: early}, 0},
	} {
		got, err := tc.older.Compare(tc.newer)
		back, failed := tc.newer.Compare(tc.older)
		if err != nil || failed != nil || got != tc.want || back != -tc.want {
			t.Errorf("%s, %s: got %d, %v, and %d, %v the other way, want %d", tc.older, tc.newer, got, err, back, failed, tc.want)
		}
	}
	if _, err := (Version{Name: "abcdef0", Date: "unknown"}).Compare(Version{Name: "v1.0.0", Date: early}); err == nil {
		t.Error("a version without a date was compared")
	}
}

// TestParseVersion reads what programs print.
func TestParseVersion(t *testing.T) {
	t.Parallel()
	v, err := ParseVersion("signalbox v1.2.3 (commit abc, 2026-01-01T00:00:00Z)\n")
	if want := (Version{Name: "v1.2.3", Commit: "abc", Date: "2026-01-01T00:00:00Z"}); err != nil || v != want {
		t.Errorf("got %v, %v", v, err)
	}
	for _, text := range []string{"signalbox (devel)\n", "", "mosquitto 2.0 (commit x, y)"} {
		if v, err := ParseVersion(text); err == nil {
			t.Errorf("%q: got %v", text, v)
		}
	}
}

// TestPlatform reads the headers of programs.
func TestPlatform(t *testing.T) {
	t.Parallel()
	header := func(size int, text string, at int, number uint32) []byte {
		b := make([]byte, size)
		copy(b, text)
		binary.LittleEndian.PutUint32(b[at:], number)
		return b
	}
	pe := header(512, "MZ", 60, 0x80)
	copy(pe[0x80:], "PE\x00\x00\x64\x86")
	for want, b := range map[string][]byte{
		"linux/amd64": header(64, "\x7fELF", 18, 62), "linux/arm64": header(64, "\x7fELF", 18, 183), "linux/arm": header(64, "\x7fELF", 18, 40),
		"linux/riscv64": header(64, "\x7fELF", 18, 243), "linux/unknown": header(64, "\x7fELF", 18, 2),
		"darwin/arm64": header(64, "\xcf\xfa\xed\xfe", 4, 0x0100000c), "windows/amd64": pe,
		"": header(64, "#!/bin/sh", 60, 0),
	} {
		if got, err := platformOf(b); got != want || (err != nil) != (want == "") {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	for n := range 300 { // no header is too short
		if _, err := platformOf(pe[:n]); n < 0x86 && err == nil {
			t.Errorf("%d bytes are a program", n)
		}
	}
}
