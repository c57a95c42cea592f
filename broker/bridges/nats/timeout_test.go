package nats_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
)

// TestSilence checks that a delivery to a server that does not respond respects its deadline.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, options := range []string{``, `"jetStream":true`} {
		address := bridgestest.Silent(t, nil)
		c := compile(t, fmt.Sprintf(`"servers":["nats://%s","nats://%s"]`, address, address), options, ``)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := c.Connect(ctx); err == nil || !strings.HasPrefix(err.Error(), "no server answered in time") {
			t.Errorf("connect: got %v, want that no server answered", err)
		}

		greeting := bridgestest.Silent(t, greet)
		c = compile(t, fmt.Sprintf(`"servers":["nats://%s"]`, greeting), ``, ``)
		if err := bridgestest.Connect(t, c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		results := make([]bridges.Result, 1)
		err := c.Deliver(ctx, []*bridges.Entry{bridgestest.Entry(1, "a", "x")}, results)
		var lost *bridges.Lost
		if !errors.As(err, &lost) || err.Error() != "the server did not answer in time" || results[0].State != bridges.Pending {
			t.Errorf("deliver: got %v and %v, want it to wait", err, results[0])
		}
	}
}

// greet responds to a client's first PING.
func greet(conn net.Conn) {
	if _, err := io.WriteString(conn, `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576}`+"\r\n"); err != nil {
		return
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == "PING" {
			_, _ = io.WriteString(conn, "PONG\r\n") // the client checks whether it arrived
			return
		}
	}
}

// TestTrial checks that a trial reports that JetStream is missing.
func TestTrial(t *testing.T) {
	t.Parallel()
	address := startPeer(t, nil)
	plain := startPeer(t, withoutStreams)
	for _, tt := range []struct {
		peer *peer
		want string
	}{{address, ""}, {plain, "the server has no JetStream, at least not for this user: switch it on at the server, or off here"}} {
		connection := bridgestest.Connection(t, fmt.Sprintf(`{"connection":{%s},"options":{"jetStream":true}}`, servers(tt.peer)))
		connection.Trial = true
		err := bridgestest.Connect(t, bridgestest.Compile(t, kind, connection))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ connection, mapping, want string }{
		{`"servers":["host:4222"]`, ``, "connection.servers[0]"},
		{`"servers":["nats://h","ws://host"]`, ``, "connection.servers[1]"},
		{`"servers":["nats://u:p@host"]`, ``, "connection.servers[0]"},
		{`"servers":["nats://host/x"]`, ``, "connection.servers[0]"},
		{`"servers":["tls://host"]`, ``, "connection.tls.enabled"},
		{`"servers":["nats://host"],"nkeySeed":"SUAAA"`, ``, "connection.nkeySeed"},
		{`"servers":["nats://host"],"token":"t","credentials":{"username":"u","password":"p"}`, ``, "connection"},
		{`"servers":["nats://host"]`, `,"target":"a..b"`, "topicMappings[0].target"},
		{`"servers":["nats://host"]`, `,"target":"$JS.API.INFO"`, "topicMappings[0].target"},
		{`"servers":["nats://host"]`, `,"target":"${nonsense}"`, "topicMappings[0].target"},
		{`"servers":["nats://host"]`, `,"value":"${"`, "topicMappings[0].value"},
		{`"servers":["nats://host"]`, `,"value":"x","schemaMapping":"s1"`, "topicMappings[0].value"},
	} {
		_, problems := kind.Compile(bridgestest.Connection(t, fmt.Sprintf(`{"connection":{%s},"topicMappings":[{"name":"t1"%s}]}`, tt.connection, tt.mapping)))
		if len(problems) != 1 || problems[0].Path != tt.want {
			t.Errorf("%s %s: got %v, want one at %s", tt.connection, tt.mapping, problems, tt.want)
		}
	}
}
