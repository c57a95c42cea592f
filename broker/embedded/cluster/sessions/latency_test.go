package sessions_test

import (
	"io"
	"net"
	"time"
)

// delayed returns a connection in front of conn that delays what is sent in either direction.
func delayed(conn net.Conn, latency time.Duration) net.Conn {
	near, far := net.Pipe()
	pump(near, conn, latency)
	pump(conn, near, latency)
	return far
}

func pump(to, from net.Conn, latency time.Duration) {
	type chunk struct {
		due   time.Time
		bytes []byte
	}
	chunks := make(chan chunk, 1<<10)
	go func() {
		defer close(chunks)
		for {
			b := make([]byte, 4<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			chunks <- chunk{time.Now().Add(latency), b[:n]}
		}
	}()
	go func() {
		defer to.Close()
		for c := range chunks {
			<-time.After(time.Until(c.due))
			if _, err := to.Write(c.bytes); err != nil {
				from.Close()
				io.Copy(io.Discard, from) //nolint:errcheck // it is closed
			}
		}
	}()
}
