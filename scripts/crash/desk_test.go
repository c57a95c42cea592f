package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// Where commands about streams go, and where their answers come from.
const (
	streamControl = "$CONTROL/stream-processing/v1"
	streamAnswers = streamControl + "/response"
)

// order is a command about streams, with its fields.
type order map[string]any

// askStreams connects, has a command done and reads what the answer says into
// data, unless that is nil.
func askStreams(ctx context.Context, s *server, o order, data any) error {
	l, err := connect(ctx, s, packet.Login{ClientID: "desk", Clean: true})
	if err != nil {
		return err
	}
	defer l.close()
	l.subscribe(streamAnswers, 0)
	request, err := json.Marshal(order{"commands": []order{o}})
	if err != nil {
		return err
	}
	l.out = packet.AppendPublish(l.out, packet.Message{Topic: []byte(streamControl), Payload: request})
	if err := l.flush(); err != nil {
		return err
	}
	for deadline := time.Now().Add(suite.HangLimit); ; {
		first, body, err := l.next(deadline)
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
		return readAnswer(m.Payload, o["command"], data)
	}
}

var errRefusal = errors.New("the broker refuses the command")

// readAnswer takes the answer to one command apart.
func readAnswer(payload []byte, command any, data any) error {
	var answer struct {
		Responses []struct {
			Command string
			Error   string
			Data    json.RawMessage
		}
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if len(answer.Responses) != 1 || answer.Responses[0].Command != command {
		return fmt.Errorf("%s: %s: %w", command, payload, errWrongPacket)
	}
	one := answer.Responses[0]
	if one.Error != "" {
		return fmt.Errorf("%s: %w: %s", command, errRefusal, one.Error)
	}
	if data == nil {
		return nil
	}
	return json.NewDecoder(bytes.NewReader(one.Data)).Decode(data)
}
