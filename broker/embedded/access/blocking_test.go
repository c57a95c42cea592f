package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/scripts/suite"
)

// shortContext returns a context for calls that must not wait for what the test blocks.
func shortContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	t.Cleanup(cancel)
	return ctx
}

// TestLogInDoesNotWaitForBulkReads holds the maximum number of snapshots.
func TestLogInDoesNotWaitForBulkReads(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), broker.ClientSpec{Username: "u", Password: new(broker.Secret("secret"))}))
	for range c.store.bulk.Stats().MaxOpenConnections {
		s, err := c.Snapshot(t.Context())
		must(t, err)
		t.Cleanup(s.Release)
	}
	_, err := c.Authenticate(shortContext(t), Credentials{Username: "u", HasUsername: true, Password: []byte("secret"), HasPassword: true})
	must(t, err)
	_, err = c.LoadBans(shortContext(t))
	must(t, err)
}

// TestReadsDoNotWaitForTheWriter blocks a change while it is being stored.
func TestReadsDoNotWaitForTheWriter(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	fill(t, c, 1000)
	must(t, c.CreateClient(t.Context(), broker.ClientSpec{Username: "u", Password: new(broker.Secret("secret"))}))
	want := export(t, c)
	c.committing.Lock()
	defer c.committing.Unlock()
	must(t, c.store.file.Lock(t.Context()))
	defer c.store.file.Unlock()
	tx, err := c.store.w.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // nothing is to be stored
	_, err = tx.ExecContext(t.Context(), `UPDATE access_clients SET textname = 'changed'`)
	must(t, err)

	document, err := c.ExportAccess(shortContext(t))
	must(t, err)
	if string(document) != want {
		t.Errorf("got %.300s, want %.300s", document, want)
	}
	page, err := c.ListClients(shortContext(t), broker.ListOptions[broker.Client]{Count: -1})
	must(t, err)
	if got := len(collectAll(t, page.Items, func(c broker.Client) string { return c.Username })); got != 1001 {
		t.Errorf("got %d clients, want 1001", got)
	}
	_, err = c.GetClient(shortContext(t), "u")
	must(t, err)
	_, err = c.Authenticate(shortContext(t), Credentials{Username: "u", HasUsername: true, Password: []byte("secret"), HasPassword: true})
	must(t, err)
}

// TestExportIsOfOneMoment exports while clients are created and deleted, each with a
// password derived from its name.
func TestExportIsOfOneMoment(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	fill(t, c, 100)
	over := make(chan struct{})
	var writers sync.WaitGroup
	defer writers.Wait()
	defer close(over)
	for i := range 2 {
		writers.Go(func() {
			spec := broker.ClientSpec{Username: fmt.Sprint("u", i), Password: new(broker.Secret("secret"))}
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := errors.Join(c.CreateClient(t.Context(), spec), c.DeleteClient(t.Context(), spec.Username)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		document, err := c.ExportAccess(t.Context())
		must(t, err)
		content, _, err := dynsec.ParseDocument(bytes.NewReader(document))
		must(t, err)
		for _, client := range content.Document().Clients {
			if client.Username[0] == 'u' && client.EncodedPassword == "" {
				t.Fatalf("%s is without its password", client.Username)
			}
		}
	}
}

// TestCallersLeave cancels callers at any moment of a change, which the writer completes.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		name := fmt.Sprint("u", i)
		if err := c.CreateClient(ctx, broker.ClientSpec{Username: name}); err == nil {
			must(t, c.DeleteClient(t.Context(), name))
		}
	}
}
