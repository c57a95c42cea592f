package apitest_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// csvOf returns a list as CSV: its columns, and its entries as maps from them.
func csvOf(t *testing.T, c *apitest.Caller, path string) (head []string, entries []map[string]string) {
	t.Helper()
	got := c.Get(path).Want(200)
	if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/csv") {
		t.Fatalf("content type %q", got.Header.Get("Content-Type"))
	}
	rows, err := csv.NewReader(strings.NewReader(string(got.Body))).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%v: %s", err, got.Body)
	}
	for _, row := range rows[1:] {
		entry := map[string]string{}
		for i, cell := range row {
			entry[rows[0][i]] = cell
		}
		entries = append(entries, entry)
	}
	return rows[0], entries
}

// TestListFormats returns lists as CSV, with what the same query returns as JSON, and as files.
func TestListFormats(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	texts := []string{"=1+1", "+1", "-1", "@x", "a, \"b\"\nand ⟦c⟧", "plain"}
	a.Root.Post(a.At("/groups"), object{"groupname": "g"}).Want(204)
	for i, text := range texts {
		groups := []object{{"groupname": "g"}}
		a.Root.Post(a.At("/clients"), object{"username": fmt.Sprint("c", i), "password": "p", "textname": text, "groups": groups}).Want(204)
	}

	head, entries := csvOf(t, a.Root, a.At("/clients?format=csv&filterTarget=username&filterMode=startsWith&filterValue=c"))
	if head[0] != "username" || !slices.Contains(head, "textname") || len(entries) != len(texts) {
		t.Fatalf("columns %q, %d entries", head, len(entries))
	}
	for i, e := range entries {
		want := texts[i]
		if strings.ContainsRune("=+-@", rune(want[0])) {
			want = "'" + want
		}
		if e["username"] != fmt.Sprint("c", i) || e["textname"] != want || e["disabled"] != "false" {
			t.Errorf("entry %d: %q", i, e)
		}
	}
	var groups []struct {
		Groupname string `json:"groupname"`
	}
	if err := json.Unmarshal([]byte(entries[1]["groups"]), &groups); err != nil || len(groups) != 1 || groups[0].Groupname != "g" {
		t.Errorf("groups %q: %v", entries[1]["groups"], err)
	}

	_, entries = csvOf(t, a.Root, a.At("/clients?format=csv&offset=1&count=2"))
	if len(entries) != 2 {
		t.Errorf("a part of the list has %d entries", len(entries))
	}
	if _, names := csvOf(t, a.Root, a.At("/groups?format=csv&verbose=false")); len(names) != 1 || names[0]["groupname"] != "g" {
		t.Errorf("names %q", names)
	}
	if head, brokers := csvOf(t, a.Root, "/api/projects/"+a.Project+"/brokers?format=csv"); !slices.Contains(head, "status.connected") || len(brokers) != 1 || brokers[0]["status.connected"] != "true" {
		t.Errorf("%q: %q", head, brokers)
	}
	wantFiles(t, a)
}

// wantFiles compares the list with and without format=json, and refuses other formats.
func wantFiles(t *testing.T, a *apitest.API) {
	t.Helper()
	shown, saved := a.Root.Get(a.At("/clients")).Want(200), a.Root.Get(a.At("/clients?format=json")).Want(200)
	if string(shown.Body) != string(saved.Body) {
		t.Error("format=json is another document")
	}
	for response, want := range map[*apitest.Response]string{shown: "", saved: "attachment; filename=listClients.json", a.Root.Get(a.At("/clients?format=csv")): "attachment; filename=listClients.csv"} {
		if got := response.Header.Get("Content-Disposition"); got != want {
			t.Errorf("disposition %q, want %q", got, want)
		}
		if response.Header.Get("X-Total-Count") == "" {
			t.Error("the number of entries is missing")
		}
	}
	for _, query := range []string{"?format=xml", "?format=", "?format=csv&format=xml"} {
		if fields := a.Root.Get(a.At("/clients"+query)).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(fields, []string{"query.format"}) {
			t.Errorf("%s: fields %q", query, fields)
		}
	}
	if got := a.Root.Get(a.BrokerAt("none", "/clients?format=csv")).WantError(404, "NOT_FOUND"); got.Header.Get("Content-Disposition") != "" {
		t.Error("an error is saved")
	}
}
