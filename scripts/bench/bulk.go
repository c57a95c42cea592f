//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// bulkWay is a way to create many clients, whose usernames begin with a prefix. It returns when all
// are durable.
type bulkWay struct {
	what   string
	create func(ctx context.Context, p *product, prefix string, clients int) error
}

// measureBulk compares the ways to create many clients.
func (b *bench) measureBulk(ctx context.Context) error {
	p, err := b.newProduct(ctx, b.few, 0)
	if err != nil {
		return err
	}
	clients := 10_000 / b.share
	for i, way := range []bulkWay{
		{fmt.Sprintf("HTTP, %d callers", writers), createOverHTTP},
		{fmt.Sprintf("signalbox client create -f, --parallel %d", writers), b.createByCommand},
		{"$CONTROL, one message", createByControl},
		{"signalbox import dynsec", b.createByImport},
	} {
		var took, cpu samples
		for round := range b.rounds {
			began := time.Now()
			used, err := spentBy(p.child, clients, func() error {
				return way.create(ctx, p, fmt.Sprintf("bulk-%d-%d", i, round), clients)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", way.what, err)
			}
			took, cpu = append(took, time.Since(began).Seconds()), append(cpu, used)
		}
		b.report.add(fmt.Sprintf("%d creations, durable: %s", clients, way.what), fmt.Sprintf("CPU %.0f µs each", cpu.median()),
			took, "%.2f s", atMost(2))
	}
	return nil
}

func bulkName(prefix string, n int) string { return fmt.Sprintf("%s-%05d", prefix, n) }

func bulkBody(prefix string, n int) string {
	return fmt.Sprintf(`{"username":%q,"roles":[{"rolename":%q}],"groups":[{"groupname":%q}]}`, bulkName(prefix, n), deviceRole, groupName(n))
}

func createOverHTTP(ctx context.Context, p *product, prefix string, clients int) error {
	_, err := runCalls(writers, clients, func(_, n int) error {
		return p.call(ctx, http.MethodPost, p.clients, bulkBody(prefix, n), http.StatusNoContent, io.Discard)
	})
	return err
}

// createByCommand uses the command line, with a file of one object per line.
func (b *bench) createByCommand(ctx context.Context, p *product, prefix string, clients int) error {
	var lines bytes.Buffer
	for n := range clients {
		lines.WriteString(bulkBody(prefix, n) + "\n")
	}
	file := p.dir + "-" + prefix + ".jsonl"
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		return err
	}
	return p.runAs(ctx, p.token, "client", "create", "-f", file, "--parallel", strconv.Itoa(writers), "--server", p.url, "--timeout", "5m")
}

// runAs runs a command of the binary with a token.
func (p *product) runAs(ctx context.Context, token string, args ...string) error {
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Env = []string{"SIGNALBOX_TOKEN=" + token}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, out[max(0, len(out)-1000):])
	}
	return nil
}

// createByControl sends all commands in one message.
func createByControl(ctx context.Context, p *product, prefix string, clients int) error {
	w, err := dialControl(ctx, p.mqtt, prefix, p.access.password)
	if err != nil {
		return err
	}
	defer w.conn.Close()
	var all []dynsec.Command
	for n := range clients {
		all = append(all, dynsec.CreateClient(broker.ClientSpec{Username: bulkName(prefix, n), Roles: holds(deviceRole),
			Groups: []broker.GroupRef{{GroupName: groupName(n), Priority: broker.NoPriority}}}))
	}
	answers, err := w.controlAll(all)
	if err != nil {
		return err
	}
	if len(answers) != clients {
		return fmt.Errorf("got %d answers to %d commands", len(answers), clients)
	}
	for _, a := range answers {
		err = errors.Join(err, a.Err())
	}
	return err
}

// createByImport imports a document with the new clients and what they refer to.
func (b *bench) createByImport(ctx context.Context, p *product, prefix string, clients int) error {
	d := configuration(0, "", "")
	d.Clients, d.Defaults, d.Roles = nil, nil, d.Roles[1:] // without the administrator
	for n := range clients {
		name := bulkName(prefix, n)
		d.Clients = append(d.Clients, dynsec.DocumentClient{Username: name, Roles: holds(deviceRole)})
		g := &d.Groups[n%groupCount]
		g.Clients = append(g.Clients, broker.MemberRef{Username: name, Priority: broker.NoPriority})
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	file := p.dir + "-" + prefix + ".json"
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	return p.runAs(ctx, p.root, "import", "dynsec", file, "--url", p.url)
}
