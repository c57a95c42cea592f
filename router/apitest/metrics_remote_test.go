package apitest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/router/apitest"
)

// remoteSeries returns the name of a series of the broker that addMosquitto adds.
func remoteSeries(name, id string) string {
	return fmt.Sprintf(`signalbox_remote_%s{broker="%s",name="plant"}`, name, id)
}

func TestMetricsOfARemoteBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withScrapeToken)
	id := addMosquitto(t, api)
	before := metrics(api)
	api.Root.Post(api.BrokerAt(id, "/clients"), object{"username": "pump", "password": "secret"}).Want(204)
	api.Root.Post(api.BrokerAt(id, "/clients"), object{"username": "pump", "password": "secret"}).WantError(400, "ALREADY_EXISTS")
	got := metrics(api)
	refused := fmt.Sprintf(`signalbox_remote_command_failures_total{broker="%s",kind="refused",name="plant"}`, id)
	for series, want := range map[string]string{
		remoteSeries("up", id): "1", remoteSeries("reconnects_total", id): "0", remoteSeries("connect_failures_total", id): "0",
		refused: "1", "signalbox_remote_omitted": "0",
	} {
		if got[series] != want {
			t.Errorf("%s is %q, want %q", series, got[series], want)
		}
	}
	if count := remoteSeries("command_seconds_count", id); got[count] == before[count] || got[count] == "" {
		t.Errorf("commands: %q before, then %q", before[count], got[count])
	}
	for series := range got {
		if strings.HasPrefix(series, "signalbox_remote") && strings.Contains(series, api.Embedded) {
			t.Errorf("%s is of the broker in this process", series)
		}
	}
	api.Root.Put(api.BrokerAt(id, ""), object{"metricsEnabled": false}).Want(204)
	if _, has := metrics(api)[remoteSeries("up", id)]; has {
		t.Error("there are metrics of a broker whose metrics are not enabled")
	}
}

// TestMetricsOfManyBrokers are bounded, whatever the number of connections.
func TestMetricsOfManyBrokers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withScrapeToken)
	for i := range 260 {
		now := time.UnixMilli(int64(i))
		row := db.Broker{ID: fmt.Sprintf("many-%03d", i), ProjectID: api.Project, Rev: 1, Type: "self-hosted", Name: fmt.Sprint("broker ", i),
			URL: "mqtt://127.0.0.1:1", VerifyCACert: true, MetricsEnabled: true, CreatedAt: now, UpdatedAt: now}
		if err := api.Handlers.DB.CreateBroker(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Handlers.ConnectAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, last := `signalbox_remote_connect_failures_total{broker="many-049",name="broker 49"}`, `signalbox_remote_up{broker="many-249",name="broker 249"}`
	waitFor(t, "the first attempts", func() bool { v := metrics(api)[first]; return v != "" && v != "0" })
	got := metrics(api)
	if got[last] != "0" || got["signalbox_remote_omitted"] != "10" {
		t.Errorf("the last broker: %q; omitted: %q, want 10", got[last], got["signalbox_remote_omitted"])
	}
	if len(got) > 2000 {
		t.Errorf("there are %d series, want at most 2000", len(got))
	}
	for series := range got {
		if strings.Contains(series, "many-050") && !strings.HasPrefix(series, "signalbox_remote_up") {
			t.Errorf("%s is too detailed", series)
		}
	}
}
