package sink

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go"
)

// Message is the message that a bare client repeats.
type Message struct {
	Topic   string
	Payload []byte
}

// FillHTTP sends that many messages as JSON in batches, each an array in the bridge's
// format.
func FillHTTP(ctx context.Context, url string, m Message, messages, batch int) error {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for sent := 0; sent < messages; sent += batch {
		if err := post(ctx, client, url, m.array(min(batch, messages-sent))); err != nil {
			return err
		}
	}
	return nil
}

// array returns the records of n messages.
func (m Message) array(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.WriteByte("[,"[min(i, 1)])
		fmt.Fprintf(&b, `{"topic":%q,"payload":%q,"qos":1,"retain":false,"timestamp":"2026-01-01T00:00:00.000Z","client_id":"bench-pub-%d"}`, m.Topic, m.Payload, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("post to the sink: got %s", resp.Status)
	}
	return nil
}

// FillNATS publishes that many messages with the headers of the bridge, and waits after
// each batch until the server has it.
func FillNATS(ctx context.Context, url string, m Message, messages, batch int) error {
	nc, err := nats.Connect(url, nats.Timeout(readyTime))
	if err != nil {
		return err
	}
	defer nc.Close()
	for n := range messages {
		out := nats.NewMsg("bench.bare")
		out.Data = m.Payload
		out.Header.Set("Mqtt-Topic", m.Topic)
		out.Header.Set("Mqtt-Qos", "1")
		out.Header.Set("Mqtt-Retain", "false")
		out.Header.Set(nats.MsgIdHdr, "bench-0123456789-1-"+strconv.Itoa(n))
		if err := nc.PublishMsg(out); err != nil {
			return err
		}
		if (n+1)%batch == 0 || n == messages-1 {
			if err := cmp.Or(ctx.Err(), nc.Flush()); err != nil {
				return err
			}
		}
	}
	return nil
}
