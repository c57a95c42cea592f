package http_test

import (
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"testing"

	"signalbox/broker/bridges"
)

// BenchmarkDeliver sends 256 messages of 32 topics to a local server.
func BenchmarkDeliver(b *testing.B) {
	s := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer s.Close()
	for name, c := range map[string]struct{ options, mapping string }{
		"single": {``, `"name":"m"`}, "concurrency=8": {`"concurrency":8`, `"name":"m"`}, "batch": {``, `"name":"m","batch":true`},
	} {
		b.Run(name, func(b *testing.B) {
			conn, problems := compile(`"url":"`+s.URL+`"`, c.options, "{"+c.mapping+"}", nil)
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			defer conn.Close(context.Background())
			var batch []*bridges.Entry
			for i := range 256 {
				batch = append(batch, entry(uint64(i), fmt.Sprint("t/", i%32), `{"speed":21.5}`))
			}
			for b.Loop() {
				if err := conn.Deliver(b.Context(), batch, make([]bridges.Result, len(batch))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
