package enginetest

import (
	"bytes"
	"io"
	"net"
)

// Buffered returns a connection in front of conn that reads from conn also while it is not
// read itself, as a network does.
func Buffered(conn net.Conn) net.Conn {
	near, far := net.Pipe()
	chunks := make(chan []byte, 1<<12)
	go func() {
		io.Copy(conn, near) //nolint:errcheck // either end closes both
		conn.Close()
	}()
	go func() {
		defer close(chunks)
		buf := make([]byte, 32<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			chunks <- bytes.Clone(buf[:n])
		}
	}()
	go func() {
		defer near.Close()
		for b := range chunks {
			near.Write(b) //nolint:errcheck // conn is read to its end
		}
	}()
	return far
}
