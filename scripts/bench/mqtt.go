//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"signalbox/broker/dynsec"
)

// wire is a minimal MQTT 3.1.1 client: its share of what is measured must be small. It
// belongs to one goroutine.
type wire struct {
	name  string // its client id
	conn  net.Conn
	r     *bufio.Reader
	asked int // commands so far
}

// The packets that it sends and awaits, with their flags.
const (
	connect    = 0x10
	connack    = 0x20
	publish    = 0x30 // QoS 0
	subscribe  = 0x82
	suback     = 0x90
	disconnect = 0xe0
)

// session bounds the use of a connection.
const session = longest

// dial connects and logs in.
func dial(ctx context.Context, addr, clientID, username, password string) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{name: clientID, conn: conn, r: bufio.NewReader(conn)}
	if err := w.login(username, password); err != nil {
		w.conn.Close()
		return nil, fmt.Errorf("log in as %s: %w", username, err)
	}
	return w, nil
}

func (w *wire) login(username, password string) error {
	if err := w.conn.SetDeadline(time.Now().Add(session)); err != nil {
		return err
	}
	const version311, clean, userPasswordClean = 4, 0x02, 0xc2
	flags := byte(clean)
	if username != "" {
		flags = userPasswordClean
	}
	body := text(append(text(nil, "MQTT"), version311, flags, 0, 0), w.name)
	if username != "" {
		body = text(text(body, username), password)
	}
	ack, err := w.ask(connect, body, connack)
	if err == nil && ack[1] != 0 {
		err = fmt.Errorf("refused with code %d", ack[1])
	}
	return err
}

// dialControl connects as the admin and subscribes to the responses of $CONTROL.
func dialControl(ctx context.Context, addr, clientID, password string) (*wire, error) {
	w, err := dial(ctx, addr, clientID, adminName, password)
	if err != nil {
		return nil, err
	}
	ack, err := w.ask(subscribe, append(text([]byte{0, 1}, dynsec.ResponseTopic), 0), suback)
	if err == nil && ack[2] != 0 {
		err = fmt.Errorf("the subscription to the answers is refused with code %d", ack[2])
	}
	if err != nil {
		w.conn.Close()
		return nil, err
	}
	return w, nil
}

// control sends one command and waits for its response.
func (w *wire) control(c dynsec.Command) error {
	answers, err := w.controlAll([]dynsec.Command{c})
	if err != nil {
		return err
	}
	if len(answers) != 1 {
		return fmt.Errorf("got %d answers to one command", len(answers))
	}
	return answers[0].Err()
}

// controlAll sends commands in one message and waits for their responses. Brokers send every
// response to all subscribers, so those to others are ignored.
func (w *wire) controlAll(commands []dynsec.Command) ([]dynsec.Response, error) {
	w.asked++
	id := w.name + "-" + strconv.Itoa(w.asked)
	for i, c := range commands {
		commands[i] = c.WithCorrelation(id)
	}
	if err := w.send(publish, append(text(nil, dynsec.Topic), dynsec.EncodeRequest(commands)...)); err != nil {
		return nil, err
	}
	own := []byte(`"` + id + `"`)
	for {
		message, err := w.receive(publish)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(message, own) {
			return dynsec.DecodeResponses(message[2+binary.BigEndian.Uint16(message):])
		}
	}
}

// ask sends a packet and returns the body of the response.
func (w *wire) ask(first byte, body []byte, awaited byte) ([]byte, error) {
	if err := w.send(first, body); err != nil {
		return nil, err
	}
	return w.receive(awaited)
}

func (w *wire) send(first byte, body []byte) error {
	head := binary.AppendUvarint([]byte{first}, uint64(len(body))) // the encoding of MQTT's lengths is that of uvarint
	_, err := w.conn.Write(append(head, body...))
	return err
}

// receive returns the body of the next packet, which must have the awaited type.
func (w *wire) receive(awaited byte) ([]byte, error) {
	got, err := w.r.ReadByte()
	if err != nil {
		return nil, err
	}
	length, err := binary.ReadUvarint(w.r)
	if err != nil {
		return nil, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(w.r, body); err != nil {
		return nil, err
	}
	if got != awaited {
		return nil, fmt.Errorf("got packet %#x, want %#x", got, awaited)
	}
	return body, nil
}

// text appends a string with its length [MQTT-1.5.3].
func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
