package main

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"a/a.go":           file("package a\n\n// List gives all. A guest is\n// not there.\nvar aSeat, seated = \"seat\", NoBODY\n"),
		"a/a.md":           file("one\n\nIt is not. There\n"),
		"b/b.go":           file("package b // gives\n"),
		"b/testdata/c.go":  file("// gives\n"),
		"b/sub/ledger.txt": file("ledger"),
	}
	var out bytes.Buffer
	failed, err := check(root, []string{"gives", "not there", "seat", "guest"}, []string{"guest a"}, &out)
	if err != nil || !failed {
		t.Errorf("got failed %v, %v", failed, err)
	}
	want := `a/a.go:3: "gives"
a/a.go:4: "not there"
a/a.go:5: "seat"
b/b.go:1: "gives"
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
