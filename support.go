package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/appliance/doctor"
	"signalbox/router/cli"
)

// supportCommand has the command that collects what helps to find a cause elsewhere.
func supportCommand(load configLoader, stdin io.Reader) *cobra.Command {
	var yes, hideNames, offline bool
	parent := &cobra.Command{Use: "support", Short: "Collects what helps to find the cause of a problem elsewhere"}
	bundle := &cobra.Command{Use: "bundle [FILE]", Short: "Writes one archive for support, without passwords, tokens, keys and payloads", Args: cobra.MaximumNArgs(1),
		Long: "Writes the report of doctor, the configuration, the last day of the log (log.file), versions and, while the service runs,\n" +
			"its metrics and goroutines to one archive for the owner only. Passwords, tokens, keys and payloads are not in it. It lists\n" +
			"what is in the archive before it writes, and asks at a terminal.",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := appliance.BundleName(time.Now())
			path := name + ".tar.gz"
			if len(args) == 1 {
				path = args[0]
			}
			b, err := collect(cmd, load, appliance.Support{Examination: appliance.Examination{Version: versionText(), Offline: offline}, HideNames: hideNames})
			if err != nil {
				return err
			}
			out := cmd.ErrOrStderr()
			fmt.Fprintf(out, "%s will have:\n", cli.Printable(path))
			for _, e := range b.Entries {
				fmt.Fprintf(out, "  %-20s %10s  %s\n", e.Name, doctor.Bytes(int64(len(e.Data))), e.About)
			}
			if !hideNames {
				fmt.Fprintln(out, "Names of clients, brokers and hosts are in it; --hide-names replaces those of clients.")
			}
			if err := confirm(out, stdin, yes); err != nil {
				return err
			}
			if err := writeBundle(path, name, b); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		}}
	bundle.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	bundle.Flags().BoolVar(&hideNames, "hide-names", false, "replace the names of clients")
	bundle.Flags().BoolVar(&offline, "offline", false, "connect to no other machine")
	parent.AddCommand(bundle)
	return parent
}

// collect returns the bundle; of an invalid configuration, only what is wrong with it.
func collect(cmd *cobra.Command, load configLoader, o appliance.Support) (*doctor.Bundle, error) {
	o.ConfigFile, _ = cmd.Flags().GetString("config") // "" if there is no such flag
	c, err := load(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w; a bundle needs a valid configuration, without which it is not known what is secret", err)
	}
	return appliance.SupportBundle(cmd.Context(), c, o)
}

// confirm asks at a terminal.
func confirm(out io.Writer, stdin io.Reader, yes bool) error {
	if yes || !isTerminal(stdin) {
		return nil
	}
	fmt.Fprint(out, "Write it? [y/N] ")
	answer, err := bufio.NewReader(stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was written")
	}
	return nil
}

// writeBundle writes an archive that only its owner can read. It replaces no file.
func writeBundle(path, folder string, b *doctor.Bundle) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: choose another name", filepath.Base(path))
	}
	if err != nil {
		return err
	}
	if err := errors.Join(b.Write(f, folder), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
