package router

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// specified are the operations of the specification, stated a second time: number,
// method, path, role, status of success.
var specified = `
1 GET P/clusters/{clusterId} viewer 200
2 DELETE P/clusters/{clusterId} admin 200
3 PUT P/clusters/{clusterId}/join editor 204
4 PUT P/clusters/{clusterId}/leave editor 204
5 GET P/clusters viewer 200
6 POST P/clusters admin 200
7 DELETE P/clusters admin 207
8 GET P/clusters/status viewer 207
9 GET B/streams viewer 200
10 POST B/streams viewer 204
11 PUT B/streams viewer 204
12 DELETE B/streams viewer 204
13 DELETE B/streams/messages viewer 204
14 PUT B/streams/replay viewer 204
15 GET /api/users/admins root 200
16 PUT /api/users/admins root 204
17 DELETE /api/users/admins root 204
18 GET /api/users/{userId} root 200
19 DELETE /api/users/{userId} root 204
20 GET /api/users root 200
21 POST /api/users root 200
22 GET B/acldefault viewer 200
23 PUT B/acldefault viewer 204
24 GET B/clients viewer 200
25 POST B/clients viewer 204
26 PUT B/clients viewer 204
27 DELETE B/clients viewer 204
28 PUT B/clients/enable viewer 204
29 GET B/groups viewer 200
30 POST B/groups viewer 204
31 PUT B/groups viewer 204
32 DELETE B/groups viewer 204
33 GET B/roles viewer 200
34 POST B/roles viewer 204
35 PUT B/roles viewer 204
36 DELETE B/roles viewer 204
37 GET B/client-inspect viewer 200
38 GET B/client-inspect/detail viewer 200
39 GET P/brokers viewer 200
40 POST P/brokers admin 200
41 GET B viewer 200
42 DELETE B admin 204
43 PUT B editor 204
44 GET B/bridges viewer 200
45 GET B/bridges/{bridgeId}/config viewer 200
46 PUT B/bridges/{bridgeId}/config viewer 204
47 GET B/bridges/{bridgeId}/status viewer 200
48 GET B/info viewer 200
49 GET B/license viewer 200
50 GET B/listeners viewer 200
51 GET B/topictree viewer 200
52 GET B/topictree/ttl viewer 200
53 PUT B/topictree/ttl viewer 204
54 GET P/tokens viewer 200
55 POST P/tokens admin 200
56 DELETE P/tokens/{tokenId} admin 200
57 GET /api/projects viewer 200
58 GET P/settings editor 200
`

func TestTable_holds_the_58_operations_of_the_specification(t *testing.T) {
	t.Parallel()
	var got []string
	for _, row := range newFixture(t).router.rows {
		if !row.Extension {
			got = append(got, fmt.Sprintf("%d %s %s %s %d", len(got)+1, row.Method, row.Path, row.Role, row.Status))
		}
	}
	long := strings.NewReplacer(" P/", " /api/projects/{projectId}/", " B", " /api/projects/{projectId}/brokers/{brokerId}").Replace(specified)
	want := strings.Split(strings.TrimSpace(long), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("row %d differs:\ngot  %s\nwant %s", i+1, at(got, i), at(want, i))
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

func TestTable_ids_are_unique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, row := range newFixture(t).router.rows {
		if seen[row.ID] {
			t.Errorf("%s stands twice", row.ID)
		}
		seen[row.ID] = true
	}
	if len(seen) < 58+20 {
		t.Errorf("only %d rows", len(seen))
	}
}

func TestTable_every_row_is_reached_by_its_own_path(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, row := range f.router.rows {
		path := f.path(row.Path)
		found := slices.DeleteFunc(slices.Clone(f.router.rows), func(r *route) bool { return r.Method != row.Method || !r.matches(path) })
		groups, err := overlays(f.router.rows)
		must(t, err)
		var picked *route
		for _, o := range groups {
			if r := o.pick(path); o.method == row.Method && r != nil && slices.Contains(o.rows, row) {
				picked = r
			}
		}
		if picked != row {
			t.Errorf("%s %s reaches %v, not %s (of %d)", row.Method, path, picked, row.ID, len(found))
		}
	}
}

func TestBuild_refuses_an_incomplete_row(t *testing.T) {
	t.Parallel()
	good := route{ID: "x", Method: "GET", Path: "/x", Role: auth.Public, Status: 200, Tag: "T", Summary: "S",
		Do: query((&router{}).getHealth)}
	cases := map[string]func(*route){
		"no id":                      func(r *route) { r.ID = "" },
		"no role":                    func(r *route) { r.Role = auth.NoRole },
		"no summary":                 func(r *route) { r.Summary = "" },
		"no tag":                     func(r *route) { r.Tag = "" },
		"no status":                  func(r *route) { r.Status = 0 },
		"no endpoint":                func(r *route) { r.Do = endpoint{} },
		"two endpoints":              func(r *route) { r.Serve, r.Produces = http.NotFoundHandler(), "text/plain" },
		"unknown path parameter":     func(r *route) { r.Path = "/x/{y}" },
		"project role without path":  func(r *route) { r.Role = auth.Admin },
		"request type lacks project": func(r *route) { r.Path = "/api/projects/{projectId}/x" },
	}
	row := good
	if err := row.prepare(shapes{}); err != nil {
		t.Fatalf("the row that the cases change is refused: %v", err)
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := good
			change(&row)
			if err := row.prepare(shapes{}); err == nil {
				t.Error("the row was accepted")
			}
		})
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	rowOf := func(id, method, path string) *route {
		return &route{ID: id, Method: method, Path: path, segments: segmentsOf(path)}
	}
	rows := []*route{
		rowOf("admins", "GET", "/users/admins"), rowOf("user", "GET", "/users/{id}"),
		rowOf("try", "POST", "/brokers/test"), rowOf("clients", "POST", "/brokers/{b}/clients"),
		rowOf("asset", "GET", "/docs/{file}"), rowOf("docs", "GET", "/docs"),
		rowOf("literal tail", "GET", "/users/{id}/settings"), rowOf("admins' tail", "GET", "/users/admins/{tail}"),
	}
	groups, err := overlays(rows)
	must(t, err)
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/users/admins", "admins"}, {"GET", "/users/u1", "user"}, {"GET", "/users/", ""},
		{"POST", "/brokers/test", "try"}, {"POST", "/brokers/b1", ""}, {"POST", "/brokers/test/clients", "clients"},
		{"GET", "/docs", "docs"}, {"GET", "/docs/a", "asset"}, {"GET", "/docs/", ""}, {"GET", "/docs/a/", ""},
		{"GET", "/users/u1/settings", "literal tail"}, {"GET", "/users/admins/x", "admins' tail"}, {"GET", "/users/u1/x", ""},
		{"GET", "users/u1", ""}, {"GET", "", ""},
	} {
		got := ""
		for _, o := range groups {
			if o.method != c.method {
				continue
			}
			if row := o.pick(c.path); row != nil {
				got = row.ID
			}
		}
		if got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.path, got, c.want)
		}
	}
}

func TestOverlay_refuses_rows_that_contradict_each_other(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][2]string{
		"the same path twice":                      {"/a/{x}", "/a/{x}"},
		"one place, two names":                     {"/a/{x}", "/a/{y}/b"},
		"one place, two names, literal in between": {"/a/b/{x}", "/a/{c}/{y}"},
	} {
		rows := make([]*route, 0, 2)
		for _, p := range paths {
			rows = append(rows, &route{ID: p, Method: "GET", Path: p, segments: segmentsOf(p)})
		}
		if _, err := overlays(rows); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	row := &route{promised: []int{400, 401, 404, 500}}
	for status, want := range map[int]int{404: 404, 409: 400, 405: 400, 429: 400, 413: 400, 500: 500, 502: 500, 503: 503} {
		if got := row.narrow(status); got != want {
			t.Errorf("%d became %d, want %d", status, got, want)
		}
	}
}

func TestAddAdmin_of_an_unknown_user_keeps_the_code_but_not_the_status(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wantError(t, f.do(t, "PUT", "/api/users/admins?email=nobody@example.org", f.login(t), ""), 400, handlers.CodeNotFound)
}

func TestOpenAPI_is_the_golden_document(t *testing.T) {
	t.Parallel()
	const golden = "testdata/openapi.json"
	got := append(newFixture(t).document(t), '\n')
	if *update {
		must(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if string(got) != string(want) {
		t.Errorf("the document differs from %s; read the difference, then refresh it with -update", golden)
	}
}
