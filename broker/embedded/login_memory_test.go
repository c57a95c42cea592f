package embedded

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/limits"
)

// heapNow returns the bytes of reachable objects.
func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// largeConnect returns a CONNECT of some 300 kB.
func largeConnect(t *testing.T) []byte {
	t.Helper()
	text := strings.Repeat("x", 60_000)
	return connectBytes(4, as(text, text), withID(text), withWill(text, text))
}

// floodConnects sends many large CONNECTs without their last byte from an address, one
// after the other, each of which is received or refused before the next one.
func floodConnects(t *testing.T, b *Broker, from string, n int) {
	t.Helper()
	packet := largeConnect(t)
	lost := func() (all int64) {
		for cause, times := range b.traffic.Lost() {
			if strings.HasPrefix(cause, "max_login_bytes") {
				all += times
			}
		}
		return all
	}
	for range n {
		received, refused := b.engine.Counts().BytesReceived, lost()
		conn := dialFrom(t, b, from)
		go conn.Write(packet[:len(packet)-1])
		eventually(t, "the CONNECT is received or refused", func() bool {
			return b.engine.Counts().BytesReceived >= received+int64(len(packet)-1) || lost() > refused
		})
	}
}

// dialFrom connects from one of the loopback addresses.
func dialFrom(t *testing.T, b *Broker, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", b.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func patientBroker(c *Config) { c.ConnectTimeout = time.Hour }

// TestMemoryBeforeLogin floods the broker with large CONNECTs that never end. The memory
// they use is bounded, also from addresses without a bound of their own.
func TestMemoryBeforeLogin(t *testing.T) {
	const bound = 64 << 20
	b := start(t, patientBroker)
	before := heapNow()
	floodConnects(t, b, "127.0.0.1", 400)
	if held := heapNow() - before; held > bound*3/2 {
		t.Errorf("400 CONNECTs that have not ended hold %d MiB, want %d at most", held>>20, bound>>20)
	}
	join(t, b, 4, as(adminName, adminPassword))
}

// TestMemoryBeforeLoginOfAnAddress floods the broker from one address. Another address is
// not affected, and neither are log-ins of ordinary size from the same one.
func TestMemoryBeforeLoginOfAnAddress(t *testing.T) {
	const bound = 16 << 20
	b := start(t, patientBroker, func(c *Config) { c.Limits.Exempt = nil })
	before := heapNow()
	floodConnects(t, b, "127.0.0.3", 200)
	if held := heapNow() - before; held > bound*3/2 {
		t.Errorf("200 CONNECTs of one address that have not ended hold %d MiB, want %d at most", held>>20, bound>>20)
	}
	newDevice(t, dialFrom(t, b, "127.0.0.3"), 4).SendConnect(as(adminName, adminPassword))
	will := withWill("will", strings.Repeat("x", 60_000))
	newDevice(t, dialFrom(t, b, "127.0.0.4"), 4).SendConnect(as(adminName, adminPassword), will)
	if lost := b.traffic.Lost()[string(limits.AddressEvicted)]; lost != 0 {
		t.Errorf("%d connections gave way for being half open", lost)
	}
}
