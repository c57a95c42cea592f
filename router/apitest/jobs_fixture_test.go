package apitest_test

import (
	"context"
	"fmt"
	"testing"

	"signalbox/broker"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// createJob creates a job at the embedded broker.
func createJob(as *apitest.Caller, api *apitest.API, body object) (record handlers.JobRecord) {
	as.Post(api.At("/jobs"), body).Want(200).Decode(&record)
	return record
}

func jobOf(api *apitest.API, brokerID, id string) (record handlers.JobRecord) {
	api.Root.Get(api.BrokerAt(brokerID, "/jobs/"+id)).Want(200).Decode(&record)
	return record
}

// endOf waits for the end of a job.
func endOf(t *testing.T, api *apitest.API, brokerID, id string) (record handlers.JobRecord) {
	t.Helper()
	waitFor(t, "the end of the job", func() bool {
		record = jobOf(api, brokerID, id)
		return !record.EndedAt.IsZero()
	})
	return record
}

// runJob creates a job and waits for its end.
func runJob(t *testing.T, api *apitest.API, body object) handlers.JobRecord {
	t.Helper()
	return endOf(t, api, api.Embedded, createJob(api.Root, api, body).ID)
}

func wantJob(t *testing.T, got handlers.JobRecord, state string, total, done, failed int) {
	t.Helper()
	if got.State != state || got.Total != total || got.Done != done || got.Failed != failed {
		t.Errorf("got %+v, want %s, %d of %d, %d failed", got, state, done, total, failed)
	}
}

// meters creates clients meter-00 and so on.
func meters(api *apitest.API, n int) (names []string) {
	for i := range n {
		name := fmt.Sprintf("meter-%02d", i)
		api.Root.Post(api.At("/clients"), object{"username": name, "textname": fmt.Sprint("Hall ", i%2)}).Want(204)
		names = append(names, name)
	}
	return names
}

// gatedBroker is a real broker whose clients are disabled only when the test lets them be.
type gatedBroker struct {
	broker.Broker
	begun chan string
	gate  chan struct{}
}

func (g *gatedBroker) DisableClient(ctx context.Context, username string) error {
	g.begun <- username
	<-g.gate
	return g.Broker.DisableClient(ctx, username)
}

// gated puts the embedded broker behind a gate, under the id of a record.
func gated(api *apitest.API, id string) *gatedBroker {
	g := &gatedBroker{Broker: api.Handlers.Brokers.Live(api.Embedded, 0), begun: make(chan string, 100), gate: make(chan struct{})}
	replaceBroker(api, id, g)
	return g
}

// replaceBroker replaces the live broker of a record.
func replaceBroker(api *apitest.API, id string, b broker.Broker) {
	if id != api.Embedded {
		api.Handlers.Brokers.Live(id, 0).Close(context.Background()) //nolint:errcheck // it never was connected
	}
	api.Handlers.Brokers.Pin(id, b)
}
