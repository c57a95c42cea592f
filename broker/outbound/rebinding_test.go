package outbound_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"signalbox/broker/outbound"
	"signalbox/scripts/suite"
)

// nameServer answers for every name with one address after the other; the last one stays.
type nameServer struct {
	addresses [][4]byte
	asked     atomic.Int64
	conn      net.PacketConn
}

// newNameServer makes a resolver that asks it.
func newNameServer(t *testing.T, addresses ...[4]byte) (*nameServer, *net.Resolver) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{addresses: addresses, conn: conn}
	go s.serve()
	return s, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	query := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(query)
		if err != nil {
			return
		}
		s.conn.WriteTo(s.answer(query[:n]), from) //nolint:errcheck // the resolver asks again
	}
}

// answer makes the response to a query with one question, RFC 1035 §4: the address where
// one of IPv4 is asked for, otherwise nothing.
func (s *nameServer) answer(query []byte) []byte {
	end := 12
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5 // the end of the name, type and class
	message := append([]byte{}, query[:end]...)
	message[2], message[3] = 0x84, 0x00 // a response with authority
	copy(message[6:12], []byte{0, 0, 0, 0, 0, 0})
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return message
	}
	n := int(s.asked.Add(1)) - 1
	address := s.addresses[min(n, len(s.addresses)-1)]
	message[7] = 1
	message = append(message, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name again, A, IN, valid for no time, 4 bytes
	return append(message, address[:]...)
}

// listenAt counts the connections that an address gets.
func listenAt(t *testing.T, address string) (l net.Listener, accepted chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted = make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			c.Close()
		}
	}()
	return l, accepted
}

// TestRebinding has a name lead to an address that is allowed when it is looked up first,
// and to one that is denied from then on.
func TestRebinding(t *testing.T) {
	t.Parallel()
	open, reached := listenAt(t, "127.0.0.2:0")
	_, port, _ := net.SplitHostPort(open.Addr().String())
	_, leaked := listenAt(t, "127.0.0.3:"+port)
	server, resolver := newNameServer(t, [4]byte{127, 0, 0, 2}, [4]byte{127, 0, 0, 3})
	p := policy(t, outbound.Config{Deny: []string{"127.0.0.3"}})
	outbound.SetResolver(p, resolver)
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()

	conn, err := p.DialContext(ctx, "tcp", "rebind.example:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-reached
	if got := conn.RemoteAddr().String(); got != "127.0.0.2:"+port || server.asked.Load() != 1 {
		t.Errorf("connected to %s after %d look-ups, want what the only one found", got, server.asked.Load())
	}
	for range 3 {
		_, err = p.DialContext(ctx, "tcp", "rebind.example:"+port)
		if _, ok := errors.AsType[*outbound.Denied](err); !ok {
			t.Errorf("got %v, want it denied", err)
		}
	}
	select {
	case <-leaked:
		t.Error("the denied address was connected to")
	default:
	}
}

// TestFoundFor dials addresses that were found for a name before.
func TestFoundFor(t *testing.T) {
	t.Parallel()
	l, _ := listenAt(t, "127.0.0.1:0")
	p := policy(t, outbound.Config{Allow: []string{"db.example"}, Deny: []string{"127.0.0.4"}})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		host, address string
		denied        bool
	}{{"", "127.0.0.1", true}, {"db.example", "127.0.0.1", false}, {"other.example", "127.0.0.1", true}, {"db.example", "127.0.0.4", true}} {
		ctx := t.Context()
		if c.host != "" {
			ctx = outbound.FoundFor(ctx, c.host)
		}
		conn, err := p.DialContext(ctx, "tcp", net.JoinHostPort(c.address, port))
		if err == nil {
			conn.Close()
		}
		if _, denied := errors.AsType[*outbound.Denied](err); denied != c.denied || err != nil && !denied {
			t.Errorf("%s found for %q: got %v, want denied %t", c.address, c.host, err, c.denied)
		}
	}
}
