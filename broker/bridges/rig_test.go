package bridges_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/store"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

const fake = "fake-bridge"

// must fails the test at the first error.
func must(tb testing.TB, errs ...error) {
	tb.Helper()
	for _, err := range errs {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// wantKind fails the test unless an error is of a kind.
func wantKind(tb testing.TB, err error, want broker.Kind) *broker.Error {
	tb.Helper()
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != want {
		tb.Fatalf("got error %#v, want one of kind %d", err, want)
	}
	return e
}

// conn gives a connection to target "t" that takes a/# for "x", with options.
func conn(name string, options ...string) string {
	return fmt.Sprintf(`{"name":%q,"connection":{"address":"t"},"options":{%s},"topicMappings":[{"name":"m","mqttTopics":["a/#"],"target":"x"}]}`,
		name, strings.Join(options, ","))
}

// doc gives a document of connections.
func doc(connections ...string) string {
	return `{"connections":[` + strings.Join(connections, ",") + `]}`
}

// takes gives a connection to target "t" that takes some filters.
func takes(name string, filters ...string) string {
	list, _ := json.Marshal(filters)
	return fmt.Sprintf(`{"name":%q,"connection":{"address":"t"},"topicMappings":[{"name":"m","mqttTopics":%s,"target":"x"}]}`, name, list)
}

// start opens a fake bridge with a store in memory.
func start(tb testing.TB) (*bridgestest.Rig, *bridgestest.Kind) {
	tb.Helper()
	k := &bridgestest.Kind{}
	return bridgestest.Start(tb, k, nil), k
}

// plainSeal seals nothing; what is sealed is the store's to test.
type plainSeal struct{}

func (plainSeal) Seal(plain, _ []byte) []byte             { return plain }
func (plainSeal) Unseal(sealed, _ []byte) ([]byte, error) { return sealed, nil }

// disk opens a store on a file, which ends with the test.
func disk(tb testing.TB) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), filepath.Join(tb.TempDir(), "bridges.db"),
		store.Options{Durability: storage.Process, Seal: plainSeal{}, Log: slog.New(slog.DiscardHandler)})
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close(context.Background())) })
	return s
}

// say publishes texts at QoS 1.
func say(b *bridgestest.Broker, topic string, texts ...string) {
	for _, text := range texts {
		b.Text(topic, text)
	}
}

// arrives waits until so many messages have come to a target, and gives their
// payloads.
func arrives(tb testing.TB, t *bridgestest.Target, n int) []string {
	tb.Helper()
	bridgestest.Await(tb, func() error {
		if got := len(t.Got()); got < n {
			return fmt.Errorf("%d of %d messages came", got, n)
		}
		return nil
	})
	return t.Payloads()
}

// qos0 gives a message.
func qos0(topic, text string) messaging.Message {
	return messaging.Message{Topic: topic, Payload: []byte(text)}
}

// set tries a configuration.
func set(r *bridgestest.Rig, document string) error {
	return r.SetBridgeConfig(context.Background(), fake, json.RawMessage(document))
}

// config gives the configuration as it is shown.
func config(tb testing.TB, r *bridgestest.Rig) string {
	tb.Helper()
	c, err := r.GetBridgeConfig(context.Background(), fake)
	must(tb, err)
	return string(c)
}

// numbers gives the texts of the numbers from one up to and without another.
func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// pass lets time go by, in a bubble of synctest.
func pass(d time.Duration) { <-time.After(d) }
