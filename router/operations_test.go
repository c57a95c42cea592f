package router

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOperations compares the operations with the document that the service serves: both
// are read from the table.
func TestOperations(t *testing.T) {
	t.Parallel()
	all, err := Operations()
	must(t, err)
	f := newFixture(t)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct{ Name, In string }
			RequestBody *struct {
				Content map[string]struct{ Schema schema }
			} `json:"requestBody"`
		}
	}
	must(t, json.Unmarshal(f.document(t), &doc))
	want, got := map[string][]string{}, map[string][]string{}
	for _, methods := range doc.Paths {
		for _, op := range methods {
			names := []string{}
			for _, p := range op.Parameters {
				if p.Name != formatParameter { // not for a caller that reads JSON
					names = append(names, p.In+" "+p.Name)
				}
			}
			if op.RequestBody != nil {
				for name := range op.RequestBody.Content["application/json"].Schema.Properties {
					names = append(names, "body "+name)
				}
			}
			want[op.OperationID] = names
		}
	}
	for _, op := range all {
		names := []string{}
		for _, p := range op.PathParameters {
			names = append(names, "path "+p.Name)
		}
		for _, p := range op.Query {
			names = append(names, "query "+p.Name)
		}
		// A named body is a reference in the document.
		if inline := want[op.ID]; op.Body != nil && slices.ContainsFunc(inline, func(s string) bool { return s[:4] == "body" }) {
			for _, m := range op.Body.Members {
				names = append(names, "body "+m.Name)
			}
		}
		got[op.ID] = names
	}
	for _, names := range []map[string][]string{want, got} {
		for _, list := range names {
			slices.Sort(list)
		}
	}
	want["getDocsAsset"], want["getManualPage"] = []string{}, []string{} // served by a handler of their own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters and members (-document +operations):\n%s", diff)
	}
}

// TestOperations_describe_a_row checks one row as a whole.
func TestOperations_describe_a_row(t *testing.T) {
	t.Parallel()
	all, err := Operations()
	must(t, err)
	op := all[slices.IndexFunc(all, func(o Operation) bool { return o.ID == "listClients" })]
	if op.Method != "GET" || op.Path != brokerPath+"/clients" || op.Role != "viewer" || !op.List || op.Media != "application/json" || op.Body != nil {
		t.Errorf("got %+v", op)
	}
	want := Field{Name: "verbose", Schema: Schema{Kind: Boolean, Doc: "False returns only the names of the entries.", Default: "true"}}
	if diff := cmp.Diff(want, op.Query[2]); diff != "" {
		t.Errorf("verbose (-want +got):\n%s", diff)
	}
	if op.Result == nil || op.Result.Kind != Object || !slices.ContainsFunc(op.Result.Members, func(f Field) bool { return f.Name == "username" && f.Kind == Text }) {
		t.Errorf("the entries are %+v", op.Result)
	}
}
