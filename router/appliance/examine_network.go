package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded"
	"signalbox/broker/outbound"
	"signalbox/broker/remote"
	"signalbox/db"
	"signalbox/handlers"
	"signalbox/router/appliance/doctor"
)

// certificates checks those of the configuration and of broker connections.
func (e *examination) certificates(ctx context.Context) (found []doctor.Finding) {
	if f := e.c.HTTP.TLS; f.CertFile != "" {
		found = append(found, doctor.Pair("http.tls", f.CertFile, f.KeyFile, e.now)...)
	}
	for i, l := range e.c.Broker.Listeners {
		key := fmt.Sprintf("broker.listeners[%d]", i)
		if e.c.Broker.Enabled && l.CertFile != "" {
			found = append(found, doctor.Pair(key, l.CertFile, l.KeyFile, e.now)...)
		}
		if e.c.Broker.Enabled && l.CAFile != "" {
			found = append(found, doctor.Authorities(key+".ca_file", l.CAFile, e.now)...)
		}
	}
	if file := e.c.Audit.Sinks.CAFile; file != "" {
		found = append(found, doctor.Authorities("audit.sinks.ca_file", file, e.now)...)
	}
	if err := checkFiles(e.c); err != nil && !hasErrors(found) {
		found = append(found, doctor.FailedEach("certificates", "", err, "")...)
	}
	found = append(found, e.ofConnections(ctx)...)
	if found == nil {
		found = append(found, doctor.Good("certificates", "", "none are configured"))
	}
	return found
}

func hasErrors(all []doctor.Finding) bool {
	for _, f := range all {
		if f.Level == doctor.Error {
			return true
		}
	}
	return false
}

// ofConnections checks the certificates of broker connections.
func (e *examination) ofConnections(ctx context.Context) (found []doctor.Finding) {
	err := e.withConnections(ctx, func(c *handlers.Connections, rows []db.Broker) {
		for _, row := range rows {
			authorities, client, err := c.Certificates(row)
			if err != nil {
				continue // its trial reports it
			}
			if authorities != "" {
				found = append(found, doctor.Listed("connection "+row.Name, authorities, e.now)...)
			}
			if client != "" {
				found = append(found, doctor.Chain("client of connection "+row.Name, client, e.now)...)
			}
		}
	})
	if err != nil {
		found = append(found, doctor.Failed("certificates", databaseFile, err))
	}
	return found
}

// withConnections passes the broker connections to do, if there is a database and a key.
func (e *examination) withConnections(ctx context.Context, do func(*handlers.Connections, []db.Broker)) error {
	if !e.hasDatabase() || e.vault == nil {
		return nil
	}
	policy, err := outbound.New(e.c.Outbound)
	if err != nil {
		return err
	}
	dialer := remote.New(slog.New(slog.DiscardHandler))
	dialer.Outbound = policy
	pool := broker.NewPool(dialer.Dial)
	defer pool.Close(ctx) //nolint:errcheck // each trial has closed its own
	return db.View(ctx, filepath.Join(e.c.DataDir, databaseFile), func(d *db.DB) error {
		rows, err := d.AllBrokers(ctx)
		var keys *sharedKeys
		if err == nil {
			keys, err = openKeys(ctx, d, e.vault)
		}
		if err == nil {
			do(&handlers.Connections{DB: d, Brokers: pool, Vault: keys, CertDir: filepath.Join(e.c.DataDir, "certs"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}, rows)
		}
		return err
	})
}

// trials is how many connections are tried at a time.
const trials = 8

// connections tries every broker connection, step by step.
func (e *examination) connections(ctx context.Context) (found []doctor.Finding) {
	err := e.withConnections(ctx, func(c *handlers.Connections, rows []db.Broker) {
		found = make([]doctor.Finding, len(rows))
		free := make(chan struct{}, trials)
		var running sync.WaitGroup
		for i, row := range rows {
			free <- struct{}{}
			running.Go(func() {
				defer func() { <-free }()
				found[i] = e.connection(ctx, c, row)
			})
		}
		running.Wait()
	})
	if err != nil {
		return doctor.FailedEach("connections", "", err, "")
	}
	if len(found) == 0 {
		return []doctor.Finding{doctor.Good("connections", "", "none could be tried, or there are none")}
	}
	return found
}

func (e *examination) connection(ctx context.Context, c *handlers.Connections, row db.Broker) doctor.Finding {
	if handlers.InProcess(row) {
		return doctor.Good("connections", row.Name, "is the broker in this process, or that of another node of its cluster")
	}
	trial, err := c.Try(ctx, row)
	if err != nil {
		return doctor.Failed("connections", row.Name, err)
	}
	steps := stepsOf(trial.Steps)
	switch {
	case trial.Connected && trial.Cause == broker.CauseControlDenied:
		return doctor.Warn("connections", row.Name, steps+": the user of the connection may not manage access control", remedyOf(trial.Diagnosis, "give it the rights for $CONTROL/dynamic-security/v1"))
	case trial.Connected:
		return doctor.Good("connections", row.Name, "%s: %s", row.URL, steps)
	}
	return doctor.Bad("connections", row.Name, steps+": "+trial.Error, remedyOf(trial.Diagnosis, remedies[failedStep(trial.Steps)]))
}

// stepsOf returns the steps with their results, as in "name good, port failed".
func stepsOf(all []broker.ConnectStep) string {
	var texts []string
	for _, s := range all {
		if s.State != broker.StepNotReached {
			texts = append(texts, s.Step+" "+s.State)
		}
	}
	return strings.Join(texts, ", ")
}

func failedStep(all []broker.ConnectStep) string {
	for _, s := range all {
		if s.State == broker.StepFailed {
			return s.Step
		}
	}
	return ""
}

// remedies are what to do if the trial of a connection does not know better.
var remedies = map[string]string{
	"":                   "the broker did not answer in time: check its load, and the network",
	broker.StepName:      "correct the URL of the connection, or the name server of this machine",
	broker.StepPort:      "start the broker, correct the URL of the connection, or let firewalls pass the port",
	broker.StepTLS:       "correct the scheme of the URL, or the certificates of the connection",
	broker.StepWebSocket: "correct the scheme and the path of the URL",
	broker.StepLogin:     "set the username and the password of the connection, as the broker knows them",
	broker.StepControl:   "look into the log of the broker",
}

// remedyOf returns the remedies of a diagnosis, or another text.
func remedyOf(d broker.Diagnosis, otherwise string) string {
	var lines []string
	for _, r := range d.Remedies {
		lines = append(lines, r.Text+" ("+r.Where+")", r.Lines)
	}
	if lines == nil {
		return otherwise
	}
	return strings.Join(lines, "\n")
}

// cluster tries to reach each other node of the cluster.
func (e *examination) cluster(ctx context.Context) (found []doctor.Finding) {
	stored, err := embedded.ReadCluster(ctx, e.c.DataDir)
	if err != nil {
		return []doctor.Finding{doctor.Failed("cluster", "", err)}
	}
	if len(stored.Members) == 0 {
		return []doctor.Finding{doctor.Good("cluster", "", "the broker in this process is in no cluster")}
	}
	if e.c.Cluster.Listen == "" {
		found = append(found, doctor.Warn("cluster", "cluster.listen", "the broker is a node of a cluster, and has no cluster port", "set cluster.listen to the address that the other nodes know"))
	}
	refused := map[int]string{}
	if e.service != nil {
		for _, p := range e.service.Peers {
			refused[p.Node] = p.Error
		}
	}
	for _, m := range stored.Members {
		if m.NodeID == stored.Self {
			continue
		}
		object := fmt.Sprintf("node %d", m.NodeID)
		f := doctor.Reach(ctx, object, m.HostPort())
		if text := refused[int(m.NodeID)]; text != "" && f.Level == doctor.OK {
			f = doctor.Bad("cluster", object, m.HostPort()+" can be reached, and does not answer the running service: "+text, "look into the log of that node, and compare the records of the cluster at both")
		}
		found = append(found, f)
	}
	return found
}
