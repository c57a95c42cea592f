package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"signalbox/router/appliance"
	"signalbox/router/cli"
	"signalbox/router/client"
)

// clientEnv returns what the commands that call the API use of this process.
func clientEnv(environ []string, stdin io.Reader) *cli.Env {
	return &cli.Env{Environ: environ, ConfigDir: configDir(environ), Stdin: stdin, Terminal: isTerminal,
		ReadPassword: func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
		Local:        func() (client.Options, error) { return localService(environ) }}
}

// configDir returns the directory of the user's configuration, "" if it is not known.
func configDir(environ []string) string {
	for _, name := range []string{"XDG_CONFIG_HOME", "AppData"} {
		if dir := cli.Variable(environ, name); dir != "" {
			return dir
		}
	}
	if home := cli.Variable(environ, "HOME"); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

// localService returns how to reach the service of the environment's configuration. Its
// certificate need not be issued for the address of this machine.
func localService(environ []string) (o client.Options, err error) {
	c, err := loadConfig(pflag.NewFlagSet("", pflag.ContinueOnError), environ)
	if err != nil {
		return o, err
	}
	address, err := appliance.Address(c)
	if err != nil {
		return o, err
	}
	if c.HTTP.TLS.CertFile != "" {
		if o.Certificate, err = os.ReadFile(c.HTTP.TLS.CertFile); err != nil {
			return o, err
		}
	}
	o.URL = client.LocalURL(address, o.Certificate != nil)
	return o, nil
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
