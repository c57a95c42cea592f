package cli

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/broker/thresholds"
)

// The exit codes of a plugin of a monitoring system, which are not those of the other
// commands.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

var checkWords = []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// checkTime bounds a check, since monitoring systems end one that takes too long.
const checkTime = 10 * time.Second

// check is a check for monitoring systems: a number with two thresholds.
type check struct {
	name, short, label, unit string
	warn, crit               int64 // by default
	low                      bool  // small numbers are bad
	seconds                  bool  // the number is an age: --max-age sets both thresholds
	measure                  func(context.Context, *tree, *place) (value int64, text string, err error)
}

var checks = []check{
	{name: "broker", short: "Check that the brokers are connected, or the one of --broker", label: "down", unit: "brokers that are not connected", warn: 1, crit: 1, measure: measureBrokers},
	{name: "backup", short: "Check the age of the last verified backup of the service", label: "age", unit: "seconds since the last verified backup", warn: 26 * 3600, crit: 26 * 3600, seconds: true, measure: measureBackup},
	{name: "certificates", short: "Check when the certificates that are stored with broker connections expire", label: "days", unit: "days until the first one expires", warn: thresholds.CertificateDays, crit: 7, low: true, measure: measureCertificates},
	{name: "queues", short: "Check the longest queue of a client of a broker", label: "queue", unit: "messages in the longest queue", warn: thresholds.QueueWarning, crit: thresholds.QueueCritical, measure: measureQueues},
}

// checkCommand has the checks for monitoring systems.
func (t *tree) checkCommand() *cobra.Command {
	parent := &cobra.Command{Use: "check", Short: "backup, broker, certificates, disk, queues: checks for monitoring systems", GroupID: group,
		Long: wrap("Checks for monitoring systems, as a Nagios plugin: one line with performance data, and exit code 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN).")}
	for i := range checks {
		parent.AddCommand(t.oneCheck(&checks[i]))
	}
	return parent
}

func (t *tree) oneCheck(c *check) *cobra.Command {
	p := &place{}
	cmd := c.command(&p.timeout, func(ctx context.Context, _ *cobra.Command) (int64, string, error) { return c.measure(ctx, t, p) })
	p.add(cmd, t)
	p.timeoutFlag.DefValue, p.timeout = checkTime.String(), checkTime
	return cmd
}

// command returns the command of a check, with the flags of its thresholds. A measurement has the
// time of timeout.
func (c *check) command(timeout *time.Duration, measure func(context.Context, *cobra.Command) (value int64, text string, err error)) *cobra.Command {
	warn, crit, maxAge := c.warn, c.crit, time.Duration(c.crit)*time.Second
	report := func(cmd *cobra.Command, state int, text string) error {
		line := strings.ToUpper(c.name) + " " + checkWords[state] + " - " + text
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil || state == checkOK {
			return err
		}
		return &failure{code: state, err: fmt.Errorf("%s", text), raw: []byte{}}
	}
	unknown := func(cmd *cobra.Command, err error) error { return report(cmd, checkUnknown, oneLine(err.Error())) }
	cmd := &cobra.Command{Use: c.name, Short: c.short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, fmt.Errorf("unexpected argument %q", args[0]))
		}
		return nil
	}}
	cmd.Flags().Int64Var(&warn, "warn", c.warn, "`NUMBER` of "+c.unit+" from which the state is WARNING")
	cmd.Flags().Int64Var(&crit, "crit", c.crit, "`NUMBER` of "+c.unit+" from which the state is CRITICAL")
	if c.seconds {
		cmd.Flags().DurationVar(&maxAge, "max-age", maxAge, "`AGE` from which the state is CRITICAL, as in 26h; instead of --warn and --crit")
	}
	cmd.SetFlagErrorFunc(unknown)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		if cmd.Flags().Changed("max-age") {
			warn, crit = int64(maxAge.Seconds()), int64(maxAge.Seconds())
		}
		value, text, err := measure(ctx, cmd)
		if err != nil {
			return unknown(cmd, err)
		}
		return report(cmd, c.state(value, warn, crit), oneLine(text)+" | "+c.performance(value, warn, crit))
	}
	return cmd
}

// oneLine returns a text without what separates lines and performance data.
func oneLine(text string) string { return strings.ReplaceAll(printable(text), "|", "/") }

// noValue is the number of a check that has nothing to measure, which is fine.
const noValue = math.MaxInt64

// state compares a number with the thresholds.
func (c *check) state(value, warn, crit int64) int {
	if c.low {
		value, warn, crit = -value, -warn, -crit
	}
	switch {
	case value >= crit:
		return checkCritical
	case value >= warn:
		return checkWarning
	}
	return checkOK
}

// performance returns the performance data. For small numbers the thresholds are ranges.
func (c *check) performance(value, warn, crit int64) string {
	number := fmt.Sprint(value)
	if value == noValue {
		number = "U"
	}
	if c.low {
		return fmt.Sprintf("%s=%s;%d:;%d:", c.label, number, warn+1, crit+1)
	}
	return fmt.Sprintf("%s=%s;%d;%d;0", c.label, number, warn, crit)
}

// observed returns the brokers that a check is about: all, or those with a name or an id.
func (t *tree) observed(ctx context.Context, p *place) (found []brokerState, err error) {
	s, err := t.connect(&p.connection)
	if err != nil {
		return nil, err
	}
	err = s.eachProject(ctx, p.project, func(one entry) error {
		all, err := s.brokerStates(ctx, one)
		for _, b := range all {
			if p.broker == "" || b.Name == p.broker || b.id == p.broker {
				found = append(found, b)
			}
		}
		return err
	})
	if err == nil && len(found) == 0 && p.broker != "" {
		err = fmt.Errorf("there is no broker %q", p.broker)
	}
	return found, err
}

func measureBrokers(ctx context.Context, t *tree, p *place) (down int64, text string, err error) {
	all, err := t.observed(ctx, p)
	if err != nil {
		return 0, "", err
	}
	var texts []string
	for _, b := range all {
		if !b.Connected {
			down++
			texts = append(texts, b.Project+"/"+b.Name+": "+reason(b.Error))
		}
	}
	texts = append([]string{fmt.Sprintf("%d of %d brokers connected", int64(len(all))-down, len(all))}, texts...)
	return down, strings.Join(texts, "; "), nil
}

func measureCertificates(ctx context.Context, t *tree, p *place) (days int64, text string, err error) {
	all, err := t.observed(ctx, p)
	if err != nil {
		return 0, "", err
	}
	days, text = noValue, "no certificates are stored"
	for _, b := range all {
		for rest := []byte(b.caCert + "\n" + b.clientCert); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return 0, "", fmt.Errorf("%s/%s: %w", b.Project, b.Name, err)
			}
			left := int64(math.Floor(cert.NotAfter.Sub(t.now()).Hours() / 24))
			if left < days {
				days, text = left, fmt.Sprintf("%s of %s/%s expires on %s", cert.Subject, b.Project, b.Name, cert.NotAfter.UTC().Format(time.DateOnly))
			}
		}
	}
	return days, text, nil
}

func measureQueues(ctx context.Context, t *tree, p *place) (longest int64, text string, err error) {
	op := t.operation("topClients")
	s, err := t.at(ctx, p, op)
	if err != nil {
		return 0, "", err
	}
	var top struct {
		Clients []struct {
			ClientID string
			Queue    int64
		}
	}
	if err := s.get(ctx, s.path(op.Path), url.Values{"by": {"queue"}, "count": {"1"}}, &top); err != nil {
		return 0, "", err
	}
	if len(top.Clients) == 0 {
		return 0, "no messages wait", nil
	}
	first := top.Clients[0]
	return first.Queue, fmt.Sprintf("%d messages wait for %s", first.Queue, first.ClientID), nil
}
