package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// The topics of stream commands and of their responses.
const (
	streamControl   = "$CONTROL/stream-processing/v1"
	streamResponses = streamControl + "/response"
)

// command is a stream command, with its fields.
type command map[string]any

// runStreamCommand connects, sends a command and decodes the data of its response into
// data, unless that is nil.
func runStreamCommand(ctx context.Context, s *server, o command, data any) error {
	l, err := connect(ctx, s, packet.Login{ClientID: "commands", Clean: true})
	if err != nil {
		return err
	}
	defer l.Close()
	l.subscribe(streamResponses, 0)
	request, err := json.Marshal(command{"commands": []command{o}})
	if err != nil {
		return err
	}
	l.Out = packet.AppendPublish(l.Out, packet.Message{Topic: []byte(streamControl), Payload: request})
	if err := l.Flush(); err != nil {
		return err
	}
	for deadline := time.Now().Add(suite.HangLimit); ; {
		first, body, err := l.Next(deadline)
		if err != nil {
			return fmt.Errorf("%s: %w", o["command"], err)
		}
		if packet.Kind(first) != packet.Publish {
			continue
		}
		m, ok := packet.ReadPublish(first, body)
		if !ok {
			return errWrongPacket
		}
		return readResponse(m.Payload, o["command"], data)
	}
}

var errRefusal = errors.New("the broker refuses the command")

// readResponse decodes the response to one command.
func readResponse(payload []byte, command any, data any) error {
	var response struct {
		Responses []struct {
			Command string
			Error   string
			Data    json.RawMessage
		}
	}
	if err := json.Unmarshal(payload, &response); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if len(response.Responses) != 1 || response.Responses[0].Command != command {
		return fmt.Errorf("%s: %s: %w", command, payload, errWrongPacket)
	}
	one := response.Responses[0]
	if one.Error != "" {
		return fmt.Errorf("%s: %w: %s", command, errRefusal, one.Error)
	}
	if data == nil {
		return nil
	}
	return json.NewDecoder(bytes.NewReader(one.Data)).Decode(data)
}
