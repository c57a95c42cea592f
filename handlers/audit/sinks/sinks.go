// Package sinks copies the audit log to destinations outside of its database: a file, a syslog
// receiver, a webhook and an MQTT topic. Each has a position of its own in the log, which is
// stored, so that each gets every row and every checkpoint at least once, in order, whether or
// not it could be reached meanwhile. A destination that fails delays only itself.
//
// It imports db and broker/webhook, and must not import handlers, router or broker.
package sinks

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"signalbox/broker/webhook"
	"signalbox/db"
)

// The names of the destinations.
const (
	File    = "file"
	Syslog  = "syslog"
	Webhook = "webhook"
	MQTT    = "mqtt"
)

// Options are what the destinations need beside their configuration.
type Options struct {
	// Encode returns a row as a JSON object in one line.
	Encode func(db.AuditEvent) ([]byte, error)
	// Publish publishes a message on the broker in this process and returns once it is stored.
	Publish func(ctx context.Context, topic string, payload []byte) error
	Log     *slog.Logger
	Now     func() time.Time
	// Interval is the time between two looks for new rows, by default a second.
	Interval time.Duration
	// Settle is how long a row that a syslog receiver does not acknowledge must have been sent,
	// on a connection that lasts, before it counts as received; by default five seconds.
	Settle time.Duration
}

func (o Options) withDefaults() Options {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Second
	}
	return o
}

// Status is the state of a destination.
type Status struct {
	Name        string
	Destination string    // path, topic, or scheme and host of a URL
	Seq         int64     // of the last row that it has
	Pending     int64     // rows that it does not have yet
	Err         error     // of the last attempt; nil if that succeeded
	Since       time.Time // of the first of the attempts that failed; zero if Err is nil
}

// Sinks are all destinations. They are safe for concurrent use.
type Sinks struct {
	db      *db.DB
	all     []*sink
	stop    chan struct{}      // closed by Close; nil before Start
	abort   context.CancelFunc // ends what is being sent
	running sync.WaitGroup
}

// New returns the destinations of a valid configuration. Start begins to copy.
func New(d *db.DB, c Config, o Options) *Sinks {
	o = o.withDefaults()
	s := &Sinks{db: d}
	signer, _ := webhook.NewSigner(c.WebhookSecret) //nolint:errcheck // validated, or not set
	add := func(name, where, shown string, to destination, settle time.Duration) {
		if where != "" {
			s.all = append(s.all, &sink{db: d, o: o, settle: settle, to: to, status: Status{Name: name, Destination: shown}})
		}
	}
	add(File, c.File, c.File, &file{path: c.File}, 0)
	add(Syslog, c.Syslog, origin(c.Syslog), &syslog{url: c.Syslog, caFile: c.CAFile}, o.Settle)
	add(Webhook, c.Webhook, origin(c.Webhook), &hook{url: c.Webhook, token: c.WebhookToken, caFile: c.CAFile, signer: signer, now: o.Now}, 0)
	add(MQTT, c.MQTTTopic, c.MQTTTopic, &topic{name: c.MQTTTopic, publish: o.Publish}, 0)
	return s
}

// origin returns scheme and host of a URL. Its path and query may be secrets of the receiver.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Start begins to copy, each destination from its position.
func (s *Sinks) Start(ctx context.Context) error {
	names := make([]string, len(s.all))
	for i, k := range s.all {
		names[i] = k.status.Name
	}
	positions, err := s.db.OpenAuditSinks(ctx, names)
	if err != nil {
		return err
	}
	ctx, s.abort = context.WithCancel(context.WithoutCancel(ctx))
	s.stop = make(chan struct{})
	for i, k := range s.all {
		k.stored, k.sent, k.status.Seq = positions[i], positions[i], positions[i].Seq
		s.running.Go(func() { k.run(ctx, s.stop) })
	}
	return nil
}

// Close waits for what is being sent, and copies what is left, as far as that succeeds before ctx
// ends. The rest is copied after the next start.
func (s *Sinks) Close(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	close(s.stop)
	defer s.abort()
	defer context.AfterFunc(ctx, s.abort)()
	s.running.Wait()
	for _, k := range s.all {
		s.running.Go(func() { k.drain(ctx) })
	}
	s.running.Wait()
	return nil
}

// Status returns the state of each destination.
func (s *Sinks) Status(ctx context.Context) ([]Status, error) {
	all := make([]Status, 0, len(s.all))
	head, err := s.db.AuditState(ctx)
	for _, k := range s.all {
		all = append(all, k.state(head.Seq))
	}
	return all, err
}

// errLost is the error of a connection that ended before what was sent on it has settled.
var errLost = errors.New("the other side has closed the connection")
