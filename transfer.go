package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/router/appliance"
	"signalbox/router/cli"
	"signalbox/router/client"
)

// transfer is the source or the target of an import or export of access control.
type transfer struct {
	load    configLoader
	environ []string

	url, tokenFile, broker string
	replace, strict        bool
}

// command returns the parent of the commands for the types of files.
func (t *transfer) command(use, short string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	t.flags(c)
	return c
}

// flags adds the flags for where access control is, to a command and those below it.
func (t *transfer) flags(c *cobra.Command) {
	c.PersistentFlags().StringVar(&t.url, "url", "", "URL of the running service, such as http://127.0.0.1:8080; without it the data directory is used")
	c.PersistentFlags().StringVar(&t.tokenFile, "token-file", "", "file with the token for the running service, instead of "+cli.TokenVariable+"; - is standard input")
	c.PersistentFlags().StringVar(&t.broker, "broker", "", "id of the broker; the embedded one by default")
}

// with runs do on the running service, or on the data directory.
func (t *transfer) with(do func(cmd *cobra.Command, file string, a broker.AccessTransfer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := t.load(cmd)
		if err != nil {
			return err
		}
		if t.url != "" {
			token, err := t.token(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return do(cmd, args[0], client.New(t.url, token).Access(t.broker))
		}
		err = appliance.Offline(cmd.Context(), c, func(a broker.AccessTransfer) error { return do(cmd, args[0], a) })
		if errors.Is(err, appliance.ErrRunning) {
			return fmt.Errorf("%w (while the service runs, give --url and --token-file)", err)
		}
		return err
	}
}

// addExport adds the commands that write access control as a file for Mosquitto, and dashboards.
func addExport(root *cobra.Command, load configLoader, environ []string) error {
	parent, _, err := root.Find([]string{"export"})
	if err != nil {
		return err
	}
	t := &transfer{load: load, environ: environ}
	cmd := &cobra.Command{Use: "dynsec FILE", Short: "Writes dynamic-security.json, password hashes included; - is standard output",
		Args: cobra.ExactArgs(1), RunE: t.with(exportTo)}
	t.flags(cmd)
	addConfigFlags(cmd)
	cmd.GroupID = ""
	parent.AddCommand(cmd, exportDashboards())
	return nil
}

// reader converts a file to a dynamic-security document, with warnings.
type reader func(io.Reader) (document io.Reader, warnings []string, err error)

func importCommand(load configLoader, environ []string) *cobra.Command {
	t := &transfer{load: load, environ: environ}
	parent := t.command("import", "Takes access control over from Mosquitto's files")
	passwords := func(r io.Reader) (dynsec.Document, []string, error) { return dynsec.ParsePasswordFile(r, t.strict) }
	for kind, read := range map[string]reader{
		"dynsec": asItIs, "passwd": converted(passwords), "acl": converted(dynsec.ParseACLFile),
	} {
		cmd := &cobra.Command{Use: kind + " FILE", Short: "Imports a file of Mosquitto (" + kind + "), completely or not at all", Args: cobra.ExactArgs(1),
			RunE: t.with(func(cmd *cobra.Command, file string, a broker.AccessTransfer) error {
				return importFrom(cmd, file, a, read, t.replace)
			})}
		switch kind {
		case "passwd":
			cmd.Flags().BoolVar(&t.strict, "strict", false, "refuse a file with hashes of the old kind $6$ instead of listing their users")
		case "dynsec":
			cmd.Flags().BoolVar(&t.replace, "replace", false, "replace the access control of the broker with the file")
		}
		parent.AddCommand(cmd)
	}
	return parent
}

// token returns the token for the running service.
func (t *transfer) token(stdin io.Reader) (string, error) {
	if t.tokenFile == "" {
		return cli.Variable(t.environ, cli.TokenVariable), nil
	}
	return (&cli.Env{Stdin: stdin}).ReadToken(t.tokenFile)
}

// asItIs reads a document while it is imported: it may be larger than the memory.
func asItIs(r io.Reader) (io.Reader, []string, error) { return r, nil, nil }

// converted reads a file of another format.
func converted(parse func(io.Reader) (dynsec.Document, []string, error)) reader {
	return func(r io.Reader) (io.Reader, []string, error) {
		d, warnings, err := parse(r)
		if err != nil {
			return nil, nil, err
		}
		b, err := d.MarshalRecords()
		return bytes.NewReader(b), warnings, err
	}
}

func importFrom(cmd *cobra.Command, file string, a broker.AccessTransfer, read reader, replace bool) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	doc, warnings, err := read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	defer limitHeap(f)()
	report, err := a.ImportAccess(cmd.Context(), doc, replace)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", file, outcome(err), err)
	}
	for _, w := range append(warnings, report.Warnings...) {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "imported %d clients, %d groups and %d roles\n", report.Clients, report.Groups, report.Roles)
	return nil
}

// largeFile is the size from which limitHeap limits the heap, in bytes, and importGrowth by how much the
// heap of an import may grow before it is collected, in percent. Small files need no limit, and are read
// faster without one.
const (
	largeFile    = 16 << 20
	importGrowth = 50
)

// limitHeap makes the garbage collector work harder while a large file is imported, and returns a
// function that undoes this.
func limitHeap(f *os.File) (undo func()) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < largeFile {
		return func() {}
	}
	before := debug.SetGCPercent(importGrowth)
	if before >= 0 && before < importGrowth { // GOGC is set to less
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}

// outcome returns a note if a failed import may have succeeded all the same, as when
// the connection to the service is lost.
func outcome(err error) string {
	answer, answered := errors.AsType[*client.Error](err)
	own, ours := errors.AsType[*broker.Error](err)
	if answered && answer.Status < 500 || ours && own.Kind != broker.Unconfirmed {
		return "nothing was imported"
	}
	return "the outcome is unknown; check it before you repeat the command"
}

func exportTo(cmd *cobra.Command, file string, a broker.AccessTransfer) error {
	doc, err := a.ExportAccess(cmd.Context())
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := cmd.OutOrStdout().Write(doc)
		return err
	}
	if err := appliance.WritePrivate(file, doc); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "wrote", file)
	return nil
}
