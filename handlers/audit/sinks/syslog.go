package sinks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"signalbox/db"
)

// syslog sends messages in the form of RFC 5424 over TCP (RFC 6587) or TLS (RFC 5425), both with
// octet counting. The receiver acknowledges nothing: what was sent on a connection that ends
// soon after is sent again.
type syslog struct {
	url, caFile string
	conn        net.Conn
	lost        chan struct{} // closed when the other side has closed conn
}

func (s *syslog) send(ctx context.Context, list []record) error {
	if s.conn == nil {
		if len(list) == 0 {
			return nil
		}
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	select {
	case <-s.lost:
		return errLost
	default:
	}
	if len(list) == 0 {
		return nil
	}
	var out []byte
	for _, r := range list {
		m := message(&r)
		out = append(strconv.AppendInt(out, int64(len(m)), 10), ' ')
		out = append(out, m...)
	}
	deadline, _ := ctx.Deadline()
	if err := s.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := s.conn.Write(out)
	return err
}

func (s *syslog) connect(ctx context.Context) error {
	u, err := url.Parse(s.url)
	if err != nil {
		return err
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if u.Scheme == "tls" {
		cfg, err := tlsConfig(s.caFile, u.Hostname())
		if err != nil {
			return err
		}
		dialer = &tls.Dialer{Config: cfg}
	}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	lost := make(chan struct{})
	go func() { // ends with the connection
		io.Copy(io.Discard, conn) //nolint:errcheck // its end is what counts
		close(lost)
	}()
	s.conn, s.lost = conn, lost
	return nil
}

func (s *syslog) close() {
	if s.conn != nil {
		s.conn.Close() //nolint:errcheck // given up
		s.conn = nil
	}
}

// The parts of a message's header. The facility is that of a log audit.
const (
	facility   = 13
	sevError   = 3
	sevWarning = 4
	sevInfo    = 6
	maxMessage = 8192 // that a receiver should be able to read at least, RFC 5425 section 4.3.1
)

// hostname returns the name of the machine in the form of RFC 5424, "-" if it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < 33 || r > 126 }) || len(name) > 255 {
		return "-"
	}
	return name
}

// message returns a record as a syslog message, with the name of the operation as its MSGID. A
// change that is too long is left out.
func message(r *record) []byte {
	severity, id := sevInfo, "checkpoint"
	if r.event != nil {
		severity, id = severityOf(r.event.Outcome), r.event.Operation
	}
	head := fmt.Sprintf("<%d>1 %s %s signalbox %d %.32s - ", facility*8+severity, r.time.UTC().Format("2006-01-02T15:04:05.000Z"), hostname(), os.Getpid(), id)
	body := r.json
	if len(head)+len(body) > maxMessage {
		body = withoutChange(body)
	}
	return append([]byte(head), body...)
}

func severityOf(outcome string) int {
	switch outcome {
	case db.AuditDone:
		return sevInfo
	case db.AuditUnknown:
		return sevError
	}
	return sevWarning
}

// withoutChange returns a row without what was changed.
func withoutChange(row []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(row, &members) != nil {
		return row
	}
	members["change"] = json.RawMessage(`{"after":{"omitted":"the change is too long for syslog"}}`)
	if short, err := json.Marshal(members); err == nil {
		return short
	}
	return row
}
