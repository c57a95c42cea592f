package apitest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// TestFilterRefusesCostlyExpressions sends expressions that would occupy the service
// for minutes, to every list that accepts one.
func TestFilterRefusesCostlyExpressions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	for name, pattern := range map[string]string{
		"many instructions": strings.Repeat("(?:.{0,1000}a)", 100),
		"few, repeated":     "(?:.{31}){32}a{30}",
		"long":              strings.Repeat("a", 5000),
		"many classes":      strings.Repeat(`\pL{0,1000}`, 20),
	} {
		for _, list := range []string{"/clients", "/groups", "/roles", "/subscriptions"} {
			query := url.Values{"filterMode": {"regex"}, "filterValue": {pattern}}
			got := api.Root.Get(api.At(list+"?"+query.Encode())).WantError(400, "INVALID_REQUEST").Fields()
			if !slices.Equal(got, []string{"query.filterValue"}) {
				t.Errorf("%s, %s: bad fields: got %q", list, name, got)
			}
		}
	}
	query := url.Values{"filterMode": {"regex"}, "filterValue": {`^(pump|valve)-\d{1,40}$`}, "verbose": {"false"}}
	if got := string(api.Root.Get(api.At("/clients?" + query.Encode())).Want(200).Body); strings.TrimSpace(got) != `["pump-7"]` {
		t.Errorf("an ordinary expression: got %s", got)
	}
}
