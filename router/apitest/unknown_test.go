package apitest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// operation is one of the document.
type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct{ Name, In string }
	Body       any `json:"requestBody"`
	Responses  map[string]any
}

// operations returns all operations of the document, by method and path.
func operations(t *testing.T, api *apitest.API) map[[2]string]operation {
	t.Helper()
	answer, err := http.Get(api.URL + "/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	all := map[[2]string]operation{}
	for path, methods := range document.Paths {
		for method, raw := range methods {
			var o operation
			if json.Unmarshal(raw, &o) == nil && o.ID != "" {
				all[[2]string{strings.ToUpper(method), path}] = o
			}
		}
	}
	if len(all) < 58 {
		t.Fatalf("the document has %d operations", len(all))
	}
	return all
}

// TestUnknownComesBeforeInvalid calls every operation with an id that does not exist
// and with an invalid query and body: the path is looked up first.
func TestUnknownComesBeforeInvalid(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var me struct{ ID string }
	api.Root.Get("/api/auth/me").Want(200).Decode(&me)
	api.Root.Put(api.At("/bridges/http-bridge/config"), object{"connections": []object{{"name": "history", "enabled": false,
		"connection": object{"url": "http://127.0.0.1:9"}}}}).Want(204)
	known := map[string]string{"{projectId}": api.Project, "{brokerId}": api.Embedded, "{bridgeId}": "http-bridge",
		"{connectionName}": "history", "{userId}": me.ID}
	tried := 0
	for at, o := range operations(t, api) {
		for _, unknown := range []string{"{projectId}", "{brokerId}", "{bridgeId}", "{connectionName}", "{clusterId}", "{tokenId}", "{userId}", "{jobId}"} {
			if !strings.Contains(at[1], unknown) {
				continue
			}
			path := strings.ReplaceAll(at[1], unknown, "01900000-0000-7000-8000-000000000000")
			for name, value := range known {
				path = strings.ReplaceAll(path, name, value)
			}
			if strings.Contains(path, "{") { // what follows it is not found either
				path = strings.NewReplacer("{", "", "}", "").Replace(path)
			}
			want := 404
			if _, promised := o.Responses["404"]; !promised {
				want = 400
			}
			for _, body := range []string{`{"`, `[]`, `{"role":7,"connections":7,"nodeid":"x","ids":[""],"name":0,"email":"x"}`} {
				tried++
				answer := api.Root.Do(at[0], path+"?count=x&offset=-3&purge=maybe&ids=,&gte=x", apitest.Text(body))
				if e := answer.Error(); answer.Status != want || e.Code != "NOT_FOUND" {
					t.Errorf("%s %s %s with unknown %s and the body %s: got %d %s, want %d NOT_FOUND", o.ID, at[0], at[1], unknown, body, answer.Status, answer.Body, want)
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d calls were made", tried)
	}
}
