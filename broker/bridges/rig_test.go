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

// wantKind checks the kind of an error.
func wantKind(tb testing.TB, err error, want broker.Kind) *broker.Error {
	tb.Helper()
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != want {
		tb.Fatalf("got error %#v, want one of kind %d", err, want)
	}
	return e
}

// conn returns a connection to target "t" that takes a/# for "x", with options.
func conn(name string, options ...string) string {
	return fmt.Sprintf(`{"name":%q,"connection":{"address":"t"},"options":{%s},"topicMappings":[{"name":"m","mqttTopics":["a/#"],"target":"x"}]}`,
		name, strings.Join(options, ","))
}

// doc returns a document with connections.
func doc(connections ...string) string {
	return `{"connections":[` + strings.Join(connections, ",") + `]}`
}

// takes returns a connection to target "t" that takes some filters.
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

// plainSeal stores configurations in plain text; the store's tests cover sealing.
type plainSeal struct{}

func (plainSeal) Seal(plain, _ []byte) []byte             { return plain }
func (plainSeal) Unseal(sealed, _ []byte) ([]byte, error) { return sealed, nil }

// disk opens a store on a file until the end of the test.
func disk(tb testing.TB) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), filepath.Join(tb.TempDir(), "bridges.db"),
		store.Options{Durability: storage.Process, Seal: plainSeal{}, Log: slog.New(slog.DiscardHandler)})
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close(context.Background())) })
	return s
}

// publishTexts publishes texts at QoS 1.
func publishTexts(b *bridgestest.Broker, topic string, texts ...string) {
	for _, text := range texts {
		b.Text(topic, text)
	}
}

// arrives waits until a target has received n messages, and returns their payloads.
func arrives(tb testing.TB, t *bridgestest.Target, n int) []string {
	tb.Helper()
	bridgestest.Await(tb, func() error {
		if got := len(t.Delivered()); got < n {
			return fmt.Errorf("%d of %d messages came", got, n)
		}
		return nil
	})
	return t.Payloads()
}

// qos0 returns a message.
func qos0(topic, text string) messaging.Message {
	return messaging.Message{Topic: topic, Payload: []byte(text)}
}

// set sets a configuration.
func set(r *bridgestest.Rig, document string) error {
	return r.SetBridgeConfig(context.Background(), fake, json.RawMessage(document))
}

// config returns the configuration as it is shown.
func config(tb testing.TB, r *bridgestest.Rig) string {
	tb.Helper()
	c, err := r.GetBridgeConfig(context.Background(), fake)
	must(tb, err)
	return string(c)
}

// numbers returns the texts of a range of numbers.
func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// elapse advances the time of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }
