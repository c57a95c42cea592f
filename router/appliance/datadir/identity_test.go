package datadir

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentityIsReadBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := load(dir); got != nil || err != nil {
		t.Errorf("of a new directory: got %v, %v", got, err)
	}
	want := newIdentity()
	want.Databases = []string{"signalbox.db", "cluster/cluster.db"}
	if err := want.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := load(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"id":"a","databases":["broker.db"]}`, `{"id":""}`, `{"id":"a","databases":["../x"]}`, `[]`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := parse(text)
		if (i == nil) == (err == nil) {
			t.Errorf("got %v and %v", i, err)
		}
		if err == nil && (i.ID == "" || i.has("../x")) {
			t.Errorf("taken: %+v", i)
		}
	})
}
