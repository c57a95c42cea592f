package apitest_test

import (
	"slices"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// TestMinPasswordLength sets the passwords of clients of the embedded broker.
func TestMinPasswordLength(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, func(c *appliance.Config) { c.Broker.MinPasswordLength = 8 })
	for _, password := range []string{"1234567"} {
		if got := api.Root.Post(api.At("/clients"), object{"username": "u", "password": password}).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{"body.password"}) {
			t.Errorf("bad fields of %q: got %q", password, got)
		}
	}
	api.Root.Post(api.At("/clients"), object{"username": "u", "password": "12345678"}).Want(204)
	api.Root.Put(api.At("/clients"), object{"username": "u", "password": "1234567"}).WantError(400, "INVALID_REQUEST")
	mqtttest.Join(t, api.MQTT, "u", "12345678")
}
