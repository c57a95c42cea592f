package client

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TestFlush adds numbers from several goroutines, each of which flushes, to a connection whose other
// end reads slowly. All arrive whole, and those of each goroutine in order.
func TestFlush(t *testing.T) {
	t.Parallel()
	const senders, each = 4, 20_000
	conn, peer := tcpPair(t)
	defer conn.Close()
	o, closed := newSendQueue(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := o.write(conn, time.Minute, closed); err != nil {
			t.Error(err)
		}
	})
	for sender := range uint32(senders) {
		wg.Go(func() {
			for n := range uint32(each) {
				add := func(dst []byte) []byte {
					return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, sender), n)
				}
				if n%100 == 0 {
					o.add(add)
					continue
				}
				o.addDeferred(add)
				o.flush(conn, time.Minute)
			}
		})
	}
	var next [senders]uint32
	in := bufio.NewReaderSize(peer, 64)
	for range senders * each {
		var b [8]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			t.Fatal(err)
		}
		sender, n := binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
		if sender >= senders || n != next[sender] {
			t.Fatalf("got %d of sender %d", n, sender)
		}
		next[sender]++
	}
	close(closed)
	wg.Wait()
}

// TestFlushWithoutReader does not wait for the other end, and the goroutine of write sends the rest.
func TestFlushWithoutReader(t *testing.T) {
	t.Parallel()
	conn, peer := tcpPair(t)
	defer conn.Close()
	o, closed := newSendQueue(), make(chan struct{})
	packet, sent := make([]byte, 1000), 0
	for len(o.buf) == 0 { // until the buffers of the connection are full
		o.addDeferred(func(dst []byte) []byte { return append(dst, packet...) })
		o.flush(conn, time.Minute)
		sent += len(packet)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := o.write(conn, time.Minute, closed); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.CopyN(io.Discard, peer, int64(sent)); err != nil {
		t.Fatal(err)
	}
	close(closed)
	wg.Wait()
}

// tcpPair returns the ends of a connection. The second one is closed at the end of the test.
func tcpPair(t *testing.T) (conn, peer net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if conn, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if peer, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return conn, peer
}
