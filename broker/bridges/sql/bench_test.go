package sql

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/bridges"
)

// BenchmarkDeliver delivers 10,000 messages in batches of 256, and compares with prepared INSERT
// texts of the same rows.
func BenchmarkDeliver(b *testing.B) {
	const messages, size = 10_000, 256
	for name, start := range servers {
		d := start(b)
		moment := "TIMESTAMPTZ(3)"
		if d.Driver == "mariadb" {
			moment = "DATETIME(3)"
		}
		columns := "(id VARCHAR(64), topic VARCHAR(200), n INTEGER, celsius DOUBLE PRECISION, at " + moment + ")"
		d.Exec(b, "CREATE TABLE bridged "+columns)
		d.Exec(b, "CREATE TABLE bare "+columns)
		r := newRig(b, d).into("t1", "bridged", "", "message_id", "id", "topic", "topic", "jsonPayload.n", "n", "jsonPayload.celsius", "celsius", "timestamp", "at")
		c := r.connected()
		var batches [][]*bridges.Entry
		var statements []string
		for n := 0; n < messages; n += size {
			batch := make([]*bridges.Entry, min(size, messages-n))
			rows := make([]string, len(batch))
			for i := range batch {
				batch[i] = r.entry("t1", fmt.Sprintf(`{"n":%d,"celsius":21.%d}`, n+i, i))
				rows[i] = fmt.Sprintf("('%s','plant/7',%d,21.%d,'2023-11-14 22:13:20.123')", batch[i].MessageID, n+i, i)
			}
			batches, statements = append(batches, batch), append(statements, "INSERT INTO bare VALUES "+strings.Join(rows, ","))
		}
		report := func(b *testing.B) { b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "messages/s") }
		b.Run(name+"/bridge", func(b *testing.B) {
			for b.Loop() {
				for _, batch := range batches {
					deliver(b, c, batch)
				}
			}
			report(b)
		})
		b.Run(name+"/bare", func(b *testing.B) {
			for b.Loop() {
				for _, s := range statements {
					execute(b, c, s)
				}
			}
			report(b)
		})
	}
}
