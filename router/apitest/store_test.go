package apitest_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/router/apitest"
)

// storeCloud stores a record of type cloud; no operation of the API creates one.
func storeCloud(t *testing.T, api *apitest.API) string {
	t.Helper()
	now := time.Now()
	row := db.Broker{ID: "0197c10d-0000-7000-8000-000000000001", ProjectID: api.Project, Rev: 1, Type: "cloud", Name: "cloud",
		URL: "mqtts://127.0.0.1:1", VerifyCACert: true, CreatedAt: now, UpdatedAt: now, Details: json.RawMessage(`{
			"issued_to": "me", "product_id": "p", "period_start": "2026-01-01", "options": "", "subdomain": "s",
			"zone_name": "z", "location": "fsn1", "state": "active", "target_state": "active"}`)}
	if err := api.Handlers.DB.CreateBroker(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	return row.ID
}

func keysOf(m map[string]json.RawMessage) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}
