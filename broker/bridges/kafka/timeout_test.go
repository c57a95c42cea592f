package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/scripts/suite"
)

// TestSilence checks that a delivery to a cluster that does not respond respects its deadline.
func TestSilence(t *testing.T) {
	t.Parallel()
	c := compile(t, fmt.Sprintf(`"brokers":[%q]`, bridgestest.Silent(t, nil)), ``, ``)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := c.Connect(ctx); err == nil || !strings.HasPrefix(err.Error(), "the cluster did not answer in time") {
		t.Errorf("connect: got %v, want a sentence", err)
	}

	if took := time.Since(start); took > suite.HangLimit {
		t.Errorf("connect: it took %v", took)
	}
	p := startPeer(t, kfake.SeedTopics(1, "a"))
	c = compile(t, p.brokers(), ``, ``)
	if err := bridgestest.Connect(t, c); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	p.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		<-release
		return nil, nil, false
	})
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	results := make([]bridges.Result, 1)
	err := c.Deliver(ctx, []*bridges.Entry{bridgestest.Entry(1, "a", "x")}, results)
	var lost *bridges.Lost
	if !errors.As(err, &lost) || !strings.HasPrefix(err.Error(), "the cluster did not answer in time") || results[0].State != bridges.Pending {
		t.Errorf("deliver: got %v and %v, want it to wait", err, results[0])
	}
	close(release)
	bridgestest.Drive(t, c, []*bridges.Entry{bridgestest.Entry(1, "a", "x"), bridgestest.Entry(2, "a", "y")}, 2, nil)
}

func TestProblems(t *testing.T) {
	t.Parallel()
	const brokers = `"brokers":["kafka:9092"]`
	for _, tt := range []struct{ connection, options, mapping, want string }{
		{`"brokers":["kafka"]`, ``, ``, "connection.brokers[0]"},
		{`"brokers":["kafka:9092","kafka:x"]`, ``, ``, "connection.brokers[1]"},
		{`"brokers":["u:p@kafka:9092"]`, ``, ``, "connection.brokers[0]"},
		{brokers + `,"credentials":{"username":"u","password":"p"}`, ``, ``, "connection.saslMechanism"},
		{brokers + `,"credentials":{"password":"p"},"saslMechanism":"plain"`, ``, ``, "connection.credentials.username"},
		{brokers + `,"saslMechanism":"plain"`, ``, ``, "connection.credentials"},
		{brokers, `"acks":"leader","idempotent":true`, ``, "options.idempotent"},
		{brokers, ``, `,"target":"a b"`, "topicMappings[0].target"},
		{brokers, ``, `,"target":".."`, "topicMappings[0].target"},
		{brokers, ``, `,"target":"${nonsense}"`, "topicMappings[0].target"},
		{brokers, ``, `,"key":"${"`, "topicMappings[0].key"},
		{brokers, ``, `,"value":"${"`, "topicMappings[0].value"},
		{brokers, ``, `,"value":"x","schemaMapping":"s1"`, "topicMappings[0].value"},
	} {
		_, problems := kind.Compile(bridgestest.Connection(t, fmt.Sprintf(`{"connection":{%s},"options":{%s},"topicMappings":[{"name":"t1"%s}]}`, tt.connection, tt.options, tt.mapping)))
		if len(problems) != 1 || problems[0].Path != tt.want {
			t.Errorf("%s %s %s: got %v, want one at %s", tt.connection, tt.options, tt.mapping, problems, tt.want)
		}
	}
}
