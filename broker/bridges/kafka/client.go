package kafka

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"signalbox/broker/bridges"
)

// defaultMaxBatch is the maximum size of a batch, which every broker with default settings
// accepts.
const defaultMaxBatch = 1_000_000

// metadataMinAge is how long the client waits before it requests metadata again, and thus the
// duration of a failed attempt.
const metadataMinAge = 250 * time.Millisecond

// clientOptions returns the options for the cluster's addresses and for authentication.
func clientOptions(c cluster, p *bridges.Problems) []kgo.Opt {
	for i, address := range c.Brokers {
		host, port, err := net.SplitHostPort(address)
		if number, e := strconv.Atoi(port); err != nil || host == "" || e != nil || number < 1 || number > 65535 || strings.ContainsAny(host, "/@ ") {
			p.Add("connection.brokers["+strconv.Itoa(i)+"]", "must be a host and a port as in kafka:9092")
		}
	}
	id := c.ClientID
	if id == "" {
		id = "signalbox"
	}
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(id)}
	if login := c.mechanism(p); login != nil {
		opts = append(opts, kgo.SASL(login))
	}
	return opts
}

// mechanism returns the SASL mechanism, nil without authentication.
func (c *cluster) mechanism(p *bridges.Problems) sasl.Mechanism {
	switch {
	case c.Credentials == nil && c.SASLMechanism == "":
		return nil
	case c.Credentials == nil:
		p.Add("connection.credentials", "must be given beside saslMechanism")
		return nil
	case c.SASLMechanism == "":
		p.Add("connection.saslMechanism", "must be given beside credentials")
		return nil
	case c.Credentials.Username == "":
		p.Add("connection.credentials.username", "must not be empty")
	}
	user, password := c.Credentials.Username, c.Credentials.Password
	switch c.SASLMechanism {
	case "scram-sha-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "scram-sha-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return plain.Auth{User: user, Pass: password}.AsMechanism()
}

var codecs = map[string]kgo.CompressionCodec{
	"":       kgo.NoCompression(),
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// client returns the options of the producer. It buffers records until Flush.
func (o options) client(maxBytes int32, p *bridges.Problems) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 20), kgo.ProducerBatchMaxBytes(maxBytes),
		kgo.BrokerMaxWriteBytes(max(100<<20, 2*maxBytes)), kgo.ProducerBatchCompression(codecs[o.Compression]),
		kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(metadataMinAge), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
	idempotent := o.Idempotent == nil || *o.Idempotent
	if o.Acks == "leader" {
		if o.Idempotent != nil && idempotent {
			p.Add("options.idempotent", "must be false where only the leader acknowledges")
		}
		idempotent = false
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if !idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if o.CreateTopics {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	return opts
}
