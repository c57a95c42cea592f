package router

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/julienschmidt/httprouter"
)

// BenchmarkRequest compares a request with a project token and one read of the
// database with the bare minimum: httprouter and the same two reads.
func BenchmarkRequest(b *testing.B) {
	f := newFixture(b)
	token := f.tokens["viewer"]
	bare := httprouter.New()
	bare.GET("/api/projects/:projectId", func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) {
		header, _ := bearer(r.Header.Get("Authorization"))
		if _, err := f.auth.Authenticate(r.Context(), header); err != nil {
			b.Error(err)
		}
		p, err := f.db.GetProject(r.Context(), ps.ByName("projectId"))
		if err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"id":"` + p.ID + `"}`)) //nolint:errcheck // a recorder
	})
	for name, h := range map[string]http.Handler{"product": f.router, "bare": bare} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest("GET", "/api/projects/"+f.project, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

// BenchmarkBind measures what a body of usual size costs before its handler.
func BenchmarkBind(b *testing.B) {
	f := newFixture(b)
	row := f.row(b, "createClient")
	const body = `{"username":"pump-7","password":"secret","textname":"Pump","roles":[{"rolename":"sensor","priority":3}],"groups":[{"groupname":"hall"}]}`
	b.ReportAllocs()
	for b.Loop() {
		if bad := row.bindJSON(body); bad != nil {
			b.Fatal(bad)
		}
	}
}
