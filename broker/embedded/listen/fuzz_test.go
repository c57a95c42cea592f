package listen

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzReadProxyHeader checks that the result does not depend on how the bytes are split,
// and that nothing beyond the header is read.
func FuzzReadProxyHeader(f *testing.F) {
	for _, seed := range []string{
		"PROXY TCP4 192.0.2.7 10.0.0.1 4660 1883\r\nbeyond", "PROXY TCP6 2001:db8::7 ::1 4660 1883\r\n", "PROXY UNKNOWN\r\n",
		string(proxySignature) + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x0a\x00\x00\x01\x12\x34\x07\x5bbeyond",
		string(proxySignature) + "\x21\x21\x00\x24" + strings.Repeat("x", 36),
		string(proxySignature) + "\x21\x11\x00\x13\xc0\x00\x02\x07\x0a\x00\x00\x01\x12\x34\x07\x5b\x03\x00\x04\x00\x00\x00\x00",
		string(proxySignature) + "\x20\x00\x00\x00", "\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole := bytes.NewReader(sent)
		addr, err := readProxyHeader(whole)
		again, errAgain := readProxyHeader(iotest.OneByteReader(bytes.NewReader(sent)))
		if (err == nil) != (errAgain == nil) || addr != nil && addr.String() != again.String() {
			t.Fatalf("%v, %v; byte by byte %v, %v", addr, err, again, errAgain)
		}
		if err != nil {
			return
		}
		header := sent[:len(sent)-whole.Len()]
		short, err := readProxyHeader(bytes.NewReader(header[:len(header)-1]))
		if err == nil {
			t.Errorf("%q is read without its last byte as %v", header, short)
		}
	})
}

// FuzzUnframer checks that the result does not depend on how the bytes are split, and
// equals that of a straightforward parser.
func FuzzUnframer(f *testing.F) {
	f.Add(bytes.Join([][]byte{
		masked(opBinary, "a"), masked(bitFinal|opPing, "p"), masked(opContinuation, ""), masked(bitFinal|opContinuation, "bc"),
	}, nil), uint8(3))
	f.Add(append(masked(bitFinal|opBinary, "x"), masked(bitFinal|opClose, "\x03\xe8")...), uint8(1))
	f.Add([]byte("\x82\xfe\x00\x01mask1\x82\xff\x00\x00\x00\x00\x00\x00\x00\x02mask12"), uint8(5))
	f.Add([]byte("\x81\x81mask1\x82\x00"), uint8(2))
	f.Add([]byte("0\x7f"), uint8(9))
	f.Fuzz(func(t *testing.T, raw []byte, size uint8) {
		want, wantErr := unframed(raw)
		for _, step := range []int{max(1, int(size)), max(1, len(raw))} {
			var u unframer
			var got []byte
			var err error
			for rest := bytes.Clone(raw); len(rest) > 0 && err == nil; {
				part := rest[:min(step, len(rest))]
				rest = rest[len(part):]
				var n int
				n, err = u.decode(part)
				got = append(got, part[:n]...)
			}
			if !bytes.Equal(got, want) || (err != nil) != wantErr {
				t.Fatalf("in steps of %d: %q, %v; want %q, error %v", step, got, err, want, wantErr)
			}
		}
	})
}

// unframed is the straightforward parser: it returns the data and whether reading ends.
func unframed(raw []byte) (data []byte, ends bool) {
	within := false
	for len(raw) >= 2 {
		final, opcode := raw[0]&bitFinal != 0, raw[0]&bitsOpcode
		if raw[1]&bitMask == 0 {
			return data, true
		}
		head, size := 2, uint64(raw[1]&^bitMask)
		if size >= length16 {
			wide := 2 << (2 * (size - length16)) // 2 or 8
			if len(raw) < head+wide+4 {
				return data, false
			}
			size = 0
			for _, b := range raw[head : head+wide] {
				size = size<<8 | uint64(b)
			}
			head += wide
		}
		if len(raw) < head+4 {
			return data, false
		}
		mask := raw[head : head+4]
		head += 4
		control := opcode >= opClose
		if raw[0]&bitsReserved != 0 || opcode == opText || opcode > opPong || !control && opcode > opBinary ||
			control && (!final || size > maxControl) || !control && (within != (opcode == opContinuation) || size > 1<<63-1) {
			return data, true
		}
		if !control {
			within = !final
		}
		here := min(size, uint64(len(raw)-head))
		payload := make([]byte, here)
		for i := range payload {
			payload[i] = raw[head+i] ^ mask[i%4]
		}
		if !control {
			data = append(data, payload...)
		}
		if here < size {
			return data, false
		}
		if opcode == opClose {
			return data, true
		}
		raw = raw[head+int(here):]
	}
	return data, false
}

// FuzzUpgrade checks that any request has one response or none.
func FuzzUpgrade(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://h\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
	f.Add("GET /mqtt HTTP/1.1\r\n\r\n")
	f.Add("GET http://[::1 HTTP/1.1\r\nHost: \r\n\r\n")
	f.Add("\x10\x00")
	f.Fuzz(func(t *testing.T, sent string) {
		var answer bytes.Buffer
		err := upgrade(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(sent), &answer}, Config{Protocol: WS})
		got := answer.String()
		switching := strings.HasPrefix(got, "HTTP/1.1 101 ")
		if switching != (err == nil) || strings.Count(got, "HTTP/1.1 ") > 1 && !strings.Contains(sent, "HTTP/1.1 ") {
			t.Errorf("%v, answered %q", err, got)
		}
	})
}
