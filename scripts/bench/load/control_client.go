//go:build linux

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// The topics of commands about streams and of their responses.
const (
	streamControl = "$CONTROL/stream-processing/v1"
	streamAnswers = streamControl + "/response"
)

// controlClient is a client that sends stream commands. It belongs to one
// goroutine.
type controlClient struct {
	*client
	asked int
}

// withControlClient connects, calls do and disconnects. The end of ctx closes the
// connection.
func withControlClient(ctx context.Context, t Target, name string, do func(*controlClient) error) error {
	c, err := dial(ctx, t.Addr, t.login(name, "", true), nil, bufferSize)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.subscribe(streamAnswers, 0); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := do(&controlClient{client: c}); err != nil {
		return errors.Join(err, c.Close())
	}
	return c.leave()
}

// command is a command about a stream, with its fields.
type command map[string]any

// response is the broker's response to a command.
type response struct {
	Command         string          `json:"command"`
	CorrelationData string          `json:"correlationData"`
	Error           string          `json:"error"`
	Data            json.RawMessage `json:"data"`
}

// send sends commands, all of which must succeed, and returns the data of the last
// response.
func (d *controlClient) send(commands ...command) (json.RawMessage, error) {
	d.asked++
	id := strconv.Itoa(d.asked)
	for _, c := range commands {
		c["correlationData"] = id
	}
	request, err := json.Marshal(map[string]any{"commands": commands})
	if err != nil {
		return nil, err
	}
	if err := d.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	m := packet.Message{Topic: []byte(streamControl), Payload: request}
	if _, err := d.Write(packet.AppendPublish(nil, m)); err != nil {
		return nil, err
	}
	return d.receive(id, len(commands))
}

// receive waits for the responses to a request, and ignores those to others.
func (d *controlClient) receive(id string, commands int) (json.RawMessage, error) {
	for {
		first, body, err := d.in.Next()
		if err != nil {
			return nil, fmt.Errorf("command about a stream: %w", err)
		}
		m, ok := packet.ReadPublish(first, body)
		var got struct{ Responses []response }
		if packet.Kind(first) != packet.Publish || !ok || json.Unmarshal(m.Payload, &got) != nil || len(got.Responses) == 0 {
			return nil, fmt.Errorf("answer % x: %w", body[:min(len(body), 40)], errWrong)
		}
		if got.Responses[0].CorrelationData != id {
			continue
		}
		for _, a := range got.Responses {
			if a.Error != "" {
				return nil, fmt.Errorf("%s: %s: %w", a.Command, a.Error, errRefused)
			}
		}
		if len(got.Responses) != commands {
			return nil, fmt.Errorf("%d answers to %d commands: %w", len(got.Responses), commands, errWrong)
		}
		return got.Responses[commands-1].Data, nil
	}
}

var errRefused = errors.New("the broker refuses a command about a stream")

// streamState is the part of a stream's state that loads need.
type streamState struct {
	Replaying bool `json:"replaying"`
	Stats     struct {
		Republished int64 `json:"republished"`
		Persisted   int64 `json:"persisted"`
		Replayed    int64 `json:"replayed"`
		Filtered    int64 `json:"filtered"`
		Invalid     int64 `json:"invalid"`
		Dropped     int64 `json:"dropped"`
	} `json:"stats"`
}

func (d *controlClient) state(stream string) (s streamState, err error) {
	data, err := d.send(command{"command": "getStream", "streamname": stream})
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// count returns how many messages a stream stores.
func (d *controlClient) count(stream string) (int64, error) {
	data, err := d.send(command{"command": "getStreamMessageCount", "streamname": stream})
	if err != nil {
		return 0, err
	}
	var got struct{ Count int64 }
	return got.Count, json.Unmarshal(data, &got)
}
