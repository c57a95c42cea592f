package cli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
	"signalbox/router/loadtest"
)

// bench measures a broker under load.
type bench struct {
	env                          *Env
	load                         loadtest.Options
	qos                          int
	passwordFile, caFile, output string
}

// The bounds of a load.
const (
	maxParticipants = 10_000
	maxPayload      = 1 << 20
	maxWindow       = 1000
	maxRate         = 10_000_000
)

// benchCommand measures a broker under the load of publishers and subscribers.
func (t *tree) benchCommand() *cobra.Command {
	b := &bench{env: t.env}
	cmd := &cobra.Command{Use: "bench URL [flags]", Short: "Measure a broker under load: rate, latency, lost messages", DisableFlagsInUseLine: true,
		GroupID: group, ValidArgsFunction: cobra.NoFileCompletions,
		Long: wrap("Connects publishers and subscribers to a broker, such as mqtt://host:1883, publishes for a time, and prints how many messages arrived and how long they took. It calls no API, and publishes below a topic of its own that no other client is likely to use. A latency begins when the message was due by the rate, not when it could be sent, so that a broker that stalls is not shown better than it is. Publishers, subscribers and what they measure share the processors of this machine: run it beside the broker only to compare. Exit code 1 means that messages were lost, refused or never acknowledged, or repeated at another QoS than 1."),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s expects URL; see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		}}
	b.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return b.run(cmd, args[0]) }
	return cmd
}

func (b *bench) addFlags(cmd *cobra.Command) {
	flags, o := cmd.Flags(), &b.load
	flags.IntVar(&o.Publishers, "publishers", 1, "`NUMBER` of publishers, each with a topic of its own")
	flags.IntVar(&o.Subscribers, "subscribers", 1, "`NUMBER` of subscribers, each of which receives all messages")
	flags.BoolVar(&o.Own, "own", false, "Have each subscriber receive the messages of one publisher only, the first those of the first")
	flags.Float64Var(&o.Rate, "rate", 0, "`NUMBER` of messages a second of all publishers together; 0 publishes as fast as the broker accepts them")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "`TIME` for which messages are published")
	flags.IntVar(&b.qos, "qos", 0, "QoS of the `NUMBER` 0, 1 or 2")
	flags.IntVar(&o.Size, "size", 100, "`BYTES` of a payload")
	flags.IntVar(&o.Window, "window", 20, "`NUMBER` of messages above QoS 0 that a publisher sends without an acknowledgement")
	flags.DurationVar(&o.Patience, "patience", 5*time.Second, "`TIME` without a message after which those that have not arrived are lost")
	flags.StringVar(&o.Topic, "topic", "", "`TOPIC` below which messages are published; bench/ and random characters by default")
	flags.StringVar(&o.Username, "username", "", "`NAME` to log in with")
	flags.StringVar(&b.passwordFile, "password-file", "", "`FILE` with the password; - is standard input")
	flags.StringVar(&b.caFile, "ca-file", "", "PEM `FILE` of the certificate authorities of the broker")
	flags.StringVarP(&b.output, "output", "o", "text", "`FORMAT`: text, json")
}

func (b *bench) run(cmd *cobra.Command, url string) error {
	if err := errors.Join(b.check(), b.addEndpoint(url), b.addCredentials()); err != nil {
		return err
	}
	name := strings.ToLower(rand.Text()[:10])
	b.load.ClientID, b.load.QoS = "bench-"+name+"-", byte(b.qos)
	if b.load.Topic == "" {
		b.load.Topic = "bench/" + name
	}
	r, err := loadtest.Run(cmd.Context(), b.load)
	if err != nil {
		if cmd.Context().Err() != nil {
			return &failure{code: CodeInterrupted, err: errors.New("interrupted before all were connected")}
		}
		return &failure{code: CodeUnavailable, err: err}
	}
	if err := b.print(cmd.OutOrStdout(), r); err != nil {
		return err
	}
	return b.failures(cmd.Context(), r)
}

// check returns every flag that is not valid.
func (b *bench) check() error {
	o := &b.load
	var invalid []string
	require := func(ok bool, text string) {
		if !ok {
			invalid = append(invalid, text)
		}
	}
	between := func(n, least, most int, flag string) {
		require(n >= least && n <= most, fmt.Sprintf("--%s: must be from %d to %d", flag, least, most))
	}
	between(o.Publishers, 1, maxParticipants, "publishers")
	between(o.Subscribers, 0, maxParticipants, "subscribers")
	between(b.qos, 0, 2, "qos")
	between(o.Size, loadtest.MinSize, maxPayload, "size")
	between(o.Window, 1, maxWindow, "window")
	require(o.Rate >= 0 && o.Rate <= maxRate, fmt.Sprintf("--rate: must be from 0 to %d", maxRate))
	require(o.Duration > 0, "--duration: must be positive")
	require(o.Patience > 0, "--patience: must be positive")
	require(!strings.ContainsAny(o.Topic, "+#\x00") && !strings.HasPrefix(o.Topic, "$"), "--topic: must be a topic without wildcards and $")
	require(b.output == "text" || b.output == asJSON, "--output: must be one of text, json")
	if len(invalid) > 0 {
		return usage("%s", strings.Join(invalid, "\n"))
	}
	return nil
}

func (b *bench) addEndpoint(url string) (err error) {
	if b.load.Endpoint, err = dial.Parse(url); err != nil {
		return usage("URL %w", err)
	}
	config := &tls.Config{ServerName: b.load.Endpoint.Host, MinVersion: tls.VersionTLS12}
	if b.caFile != "" {
		pem, err := os.ReadFile(b.caFile)
		if err != nil {
			return UsageError{err}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return usage("--ca-file: %s has no certificate in PEM format", b.caFile)
		}
	}
	b.load.Endpoint.SetTLS(config)
	b.load.Endpoint.Settings = dial.SettingNames{CA: "--ca-file"}
	return nil
}

func (b *bench) addCredentials() error {
	if b.passwordFile == "" {
		return nil
	}
	password, err := b.env.NewPassword(io.Discard, b.passwordFile)
	b.load.Password = broker.Secret(password)
	return err
}

// failures returns an error if the broker did not keep what it has promised.
func (b *bench) failures(ctx context.Context, r *loadtest.Result) error {
	switch lost := r.Lost(); {
	case ctx.Err() != nil:
		return &failure{code: CodeInterrupted, err: errors.New("interrupted: the figures are those until then")}
	case lost > 0:
		return fmt.Errorf("%d messages were lost", lost)
	case r.GivenUp > 0:
		return fmt.Errorf("%d messages were not accepted by the broker: their connection was lost", r.GivenUp)
	case r.Refused > 0:
		return fmt.Errorf("the broker refused %d messages: allow user %q to publish below %s", r.Refused, b.load.Username, b.load.Topic)
	case r.Repeated > 0 && b.load.QoS != 1:
		return fmt.Errorf("%d messages arrived more than once", r.Repeated)
	}
	return nil
}

// quantiles are those that are printed.
var quantiles = []struct {
	name string
	part float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}}

func (b *bench) print(w io.Writer, r *loadtest.Result) error {
	if b.output == asJSON {
		return json.NewEncoder(w).Encode(b.document(r))
	}
	o := &b.load
	asked := ""
	if o.Rate > 0 {
		asked = fmt.Sprintf(" (%.0f wanted)", o.Rate)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "connections\t%d publish, %d receive, MQTT %s, in %s\n", o.Publishers, o.Subscribers, versionName(r.Version), milliseconds(r.Connected))
	fmt.Fprintf(table, "published\t%d in %.1f s, %.0f a second%s, QoS %d, %d bytes\n", r.Published, r.Took.Seconds(), perSecond(r.Published, r.Took), asked, o.QoS, o.Size)
	fmt.Fprintf(table, "\t%d refused, %d not acknowledged\n", r.Refused, r.GivenUp)
	fmt.Fprintf(table, "received\t%d of %d, %.0f a second\n", r.Received, r.Expected, perSecond(r.Received, r.Receiving))
	fmt.Fprintf(table, "\t%d lost, %d repeated, %d late\n\t", r.Lost(), r.Repeated, r.Late)
	for _, q := range quantiles {
		fmt.Fprintf(table, "%s\t", q.name)
	}
	for _, line := range []struct {
		name string
		h    *loadtest.Histogram
	}{{"acknowledged after", &r.Acknowledged}, {"received after", &r.Latency}} {
		if line.h.Count() == 0 {
			continue
		}
		fmt.Fprintf(table, "\n%s\t", line.name)
		for _, q := range quantiles {
			fmt.Fprintf(table, "%s\t", milliseconds(line.h.Quantile(q.part)))
		}
	}
	fmt.Fprintln(table)
	return table.Flush()
}

func versionName(version byte) string {
	if version == 4 {
		return "3.1.1"
	}
	return fmt.Sprint(version)
}

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", inMilliseconds(d)) }

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// document returns the figures for -o json; times are milliseconds.
func (b *bench) document(r *loadtest.Result) map[string]any {
	latencies := func(h *loadtest.Histogram) map[string]float64 {
		all := map[string]float64{}
		for _, q := range quantiles {
			all[q.name] = inMilliseconds(h.Quantile(q.part))
		}
		return all
	}
	return map[string]any{
		"publishers": b.load.Publishers, "subscribers": b.load.Subscribers, "qos": b.load.QoS, "size": b.load.Size, "rate": b.load.Rate,
		"version": versionName(r.Version), "connected_ms": inMilliseconds(r.Connected), "duration_ms": inMilliseconds(r.Took),
		"published": r.Published, "published_per_second": perSecond(r.Published, r.Took), "refused": r.Refused, "not_acknowledged": r.GivenUp,
		"expected": r.Expected, "received": r.Received, "received_per_second": perSecond(r.Received, r.Receiving),
		"lost": r.Lost(), "repeated": r.Repeated, "late": r.Late,
		"acknowledged_after_ms": latencies(&r.Acknowledged), "received_after_ms": latencies(&r.Latency),
	}
}
