package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"signalbox/router/client"
)

// connection has the flags for the service that a command calls.
type connection struct {
	context, server   string
	tokenFile, caFile string
	timeout           time.Duration
	timeoutFlag       *pflag.Flag
}

func (c *connection) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.context, "context", "", "`NAME` of the context to use instead of "+ContextVariable+" or the current one")
	flags.StringVar(&c.server, "server", "", "`URL` of the service, instead of "+URLVariable+" or that of a context")
	flags.StringVar(&c.tokenFile, "token-file", "", "`FILE` with the token, instead of "+TokenVariable+" or that of a context")
	flags.StringVar(&c.caFile, "ca-file", "", "PEM `FILE` of the certificate authorities of the service")
	flags.DurationVar(&c.timeout, "timeout", usualTime, "`TIME` for the call; of a stream, the time for which it is printed")
	c.timeoutFlag = flags.Lookup("timeout")
}

// target is the service that a command calls, and what it uses there by default.
type target struct {
	client.Options
	project, broker string
}

// options returns how to reach the service of a context.
func (c savedContext) options() (o client.Options, err error) {
	o.URL, o.Token = c.URL, c.Token
	if c.CAFile != "" {
		o.CAs, err = os.ReadFile(c.CAFile)
	}
	return o, err
}

// target finds the service: of the flags, of the environment, of the current context, or
// on this machine. A token of a context is sent to no other service.
func (e *Env) target(c *connection) (t target, err error) {
	if c.context != "" && c.server != "" {
		return t, usage("--context and --server exclude each other")
	}
	url, name := Variable(e.Environ, URLVariable), Variable(e.Environ, ContextVariable)
	switch {
	case c.server != "":
		t.URL = c.server
	case c.context != "":
		t, err = e.contextTarget(c.context)
	case url != "":
		t.URL = url
	case name != "":
		t, err = e.contextTarget(name)
	default:
		t, err = e.defaultTarget()
	}
	if err != nil {
		return t, err
	}
	if token := Variable(e.Environ, TokenVariable); token != "" && (t.Token == "" || c.context == "") {
		t.Token = token
	}
	return t, e.addFiles(&t, c)
}

func (e *Env) addFiles(t *target, c *connection) (err error) {
	if c.tokenFile != "" {
		if t.Token, err = e.ReadToken(c.tokenFile); err != nil {
			return err
		}
	}
	if c.caFile != "" {
		if t.CAs, err = os.ReadFile(c.caFile); err != nil {
			return UsageError{err}
		}
		t.Certificate = nil
	}
	return nil
}

func (e *Env) contextTarget(name string) (target, error) {
	all, err := e.loadContexts()
	if err != nil {
		return target{}, err
	}
	c, err := all.find(name)
	if err != nil {
		return target{}, err
	}
	o, err := c.options()
	return target{Options: o, project: c.Project, broker: c.Broker}, err
}

// defaultTarget is the current context, or the service on this machine.
func (e *Env) defaultTarget() (target, error) {
	if e.ConfigDir != "" {
		all, err := e.loadContexts()
		if err != nil {
			return target{}, err
		}
		if all.Current != "" {
			return e.contextTarget(all.Current)
		}
	}
	o, err := e.Local()
	if err != nil {
		return target{}, &failure{code: CodeUnavailable, err: fmt.Errorf("no context is chosen, and the service on this machine is not found: %w", err)}
	}
	return target{Options: o}, nil
}

// maxToken bounds a token, in bytes.
const maxToken = 16 << 10

// ReadToken reads a token from a file, or from standard input for "-".
func (e *Env) ReadToken(name string) (string, error) {
	r, err := e.open(name, "--token-file")
	if err != nil {
		return "", err
	}
	defer r.Close() //nolint:errcheck // it was only read
	line, err := bufio.NewReader(io.LimitReader(r, maxToken)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	token := strings.TrimSpace(line)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usage("--token-file: %s has no token in its first line", name)
	}
	return token, nil
}
