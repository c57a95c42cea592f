package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"signalbox/router/appliance"
	"signalbox/router/appliance/backup"
	"signalbox/router/cli"
)

// backupCommand has the commands that write, verify and remove backups.
func backupCommand(load configLoader) *cobra.Command {
	parent := &cobra.Command{Use: "backup", Short: "Creates, verifies, lists and removes backups of the data directory"}
	parent.AddCommand(backupCreate(load), backupVerify(), backupList(load), backupPrune(load))
	return parent
}

func backupCreate(load configLoader) *cobra.Command {
	var recipient, passphrase string
	var o backup.Options
	cmd := &cobra.Command{Use: "create [FILE]", Short: "Writes a backup of the data directory to a new file, by default in backup.directory, also while the service runs",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return createInDirectory(cmd, c)
			}
			o.Version, o.Begun = versionText(), appliance.LowerPriority
			if o.To, err = recipientOf(recipient, passphrase); err != nil {
				return err
			}
			if o.WithKey && recipient == "" && passphrase == "" {
				return cli.UsageError{Err: errors.New("--with-key needs --recipient or --passphrase-file: the key is only written to an encrypted backup")}
			}
			if o.Config, err = maskedConfig(cmd); err != nil {
				return err
			}
			m, err := appliance.Backup(cmd.Context(), c, args[0], o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, the state of %s: %s\n", args[0], m.Time.Format(time.RFC3339), contents(m))
			for _, name := range m.Omitted {
				fmt.Fprintf(cmd.OutOrStdout(), "left out %s, which may contain a private key: only an encrypted backup contains it\n", name)
			}
			return nil
		}}
	cmd.Flags().StringVar(&recipient, "recipient", "", "encrypt for this public `key` of age, which begins with age1")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "encrypt with the pass phrase in the first line of this `file`")
	cmd.Flags().BoolVar(&o.WithKey, "with-key", false, "include secret.key, with which stored secrets are encrypted; needs encryption")
	cmd.MarkFlagsMutuallyExclusive("recipient", "passphrase-file")
	return cmd
}

func recipientOf(key, passphrase string) (backup.Recipient, error) {
	switch {
	case key != "":
		r, err := backup.ParseRecipient(key)
		if err != nil {
			return r, cli.UsageError{Err: fmt.Errorf("--recipient: %w", err)}
		}
		return r, nil
	case passphrase != "":
		return backup.PassphraseRecipient(passphrase)
	}
	return backup.Recipient{}, nil
}

// decryption are the flags of the commands that read a backup.
type decryption struct{ identity, passphrase string }

func (d *decryption) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.identity, "identity", "", "`file` with the private key of age, if the backup is encrypted with one")
	cmd.Flags().StringVar(&d.passphrase, "passphrase-file", "", "`file` with the pass phrase in its first line, if the backup is encrypted with one")
	cmd.MarkFlagsMutuallyExclusive("identity", "passphrase-file")
}

func (d *decryption) read() (backup.Identities, error) {
	switch {
	case d.identity != "":
		return backup.ReadIdentities(d.identity)
	case d.passphrase != "":
		return backup.PassphraseIdentity(d.passphrase)
	}
	return backup.Identities{}, nil
}

func backupVerify() *cobra.Command {
	var d decryption
	cmd := &cobra.Command{Use: "verify FILE", Short: "Reports whether a backup is complete and undamaged and can be restored with this version", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := d.read()
			if err != nil {
				return err
			}
			appliance.LowerPriority()
			m, err := appliance.VerifyBackup(cmd.Context(), args[0], with)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is intact, the state of %s by version %s: %s\n", args[0], m.Time.Format(time.RFC3339), m.Version, contents(m))
			return nil
		}}
	d.flags(cmd)
	return cmd
}

func restoreCommand(load configLoader) *cobra.Command {
	var d decryption
	var o appliance.RestoreOptions
	cmd := &cobra.Command{Use: "restore FILE", Short: "Puts a backup in the place of the data directory, which is kept; the service must be stopped", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Only != "" && !slices.Contains(appliance.RestoreOnly, o.Only) {
				return cli.UsageError{Err: fmt.Errorf("--only: must be %s", strings.Join(appliance.RestoreOnly, ", "))}
			}
			c, err := load(cmd)
			if err != nil {
				return err
			}
			with, err := d.read()
			if err != nil {
				return err
			}
			r, err := appliance.Restore(cmd.Context(), c, args[0], with, o)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			report(cmd, c.DataDir, r, o)
			return nil
		}}
	d.flags(cmd)
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "verify the backup and report what would be restored, and change nothing")
	cmd.Flags().StringVar(&o.Only, "only", "", "restore `part` of the backup and keep the rest of the data directory: access (clients, groups, roles and default access of the embedded broker), streams (with their messages) or platform (users, projects, tokens, broker connections, audit log)")
	cmd.Flags().StringVar(&o.Cluster, "cluster", "", "of a backup of a node of a cluster: `what` happens to the broker: rejoin leaves it out, so that it joins again; alone restores the broker too, if all nodes were lost")
	cmd.MarkFlagsMutuallyExclusive("only", "cluster")
	return cmd
}

func report(cmd *cobra.Command, dir string, r *appliance.Restored, o appliance.RestoreOptions) {
	out, verb, what := cmd.OutOrStdout(), "restored", contents(r.Manifest)
	if o.DryRun {
		verb = "would restore"
	}
	if o.Only != "" {
		verb, what = verb+" "+o.Only+" of", part(o.Only, r.Manifest)
	}
	fmt.Fprintf(out, "%s %s to the state of %s: %s\n", verb, dir, r.Manifest.Time.Format(time.RFC3339), what)
	if o.DryRun {
		return
	}
	if r.Previous != "" {
		fmt.Fprintf(out, "the previous data is in %s; delete it when you no longer need it\n", r.Previous)
	}
	if o.Only != "" {
		return
	}
	if r.NoBroker {
		fmt.Fprintln(out, "the broker was not restored: start the service, and let the broker join its cluster again with the same nodeid and address")
	}
	for _, name := range r.Manifest.Omitted {
		fmt.Fprintf(out, "the backup has no %s: put your copy of it into %s before the start\n", name, dir)
	}
	if r.KeptKey {
		fmt.Fprintln(out, "the backup has no secret.key: that of the previous data is used")
	}
	if r.NeedsKey {
		fmt.Fprintf(out, "the backup has no secret.key: put your copy of it into %s before the start; without it the stored passwords, keys and configurations of bridges must be given again\n", dir)
	}
}

// contents returns the counts of a backup in a sentence.
func contents(m *backup.Manifest) string {
	n := m.Counts
	return fmt.Sprintf("%d users, %d projects, %d brokers, %d clients, %d roles, %d retained messages, %d streams with %d messages, %d rows of the audit log",
		n["users"], n["projects"], n["brokers"], n["clients"], n["roles"], n["retained"], n["streams"], n["stream_messages"], n["audit_rows"])
}

// part returns the counts of a part of a backup in a sentence.
func part(only string, m *backup.Manifest) string {
	n := m.Counts
	switch only {
	case appliance.OnlyAccess:
		return fmt.Sprintf("%d clients, %d groups, %d roles", n["clients"], n["groups"], n["roles"])
	case appliance.OnlyStreams:
		return fmt.Sprintf("%d streams with %d messages", n["streams"], n["stream_messages"])
	}
	return fmt.Sprintf("%d users, %d projects, %d brokers, %d tokens, %d rows of the audit log", n["users"], n["projects"], n["brokers"], n["tokens"], n["audit_rows"])
}

// masked is in the place of a secret.
const masked = "********"

// maskedConfig returns the configuration file without comments and secrets, nil if none
// is used.
func maskedConfig(cmd *cobra.Command) ([]byte, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil || file == "" {
		return nil, err
	}
	v := viper.New()
	v.SetConfigFile(file)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", file, err)
	}
	for _, key := range v.AllKeys() {
		text, isText := v.Get(key).(string)
		if appliance.IsSecret(key) && text != "" {
			v.Set(key, masked)
		} else if u, err := url.Parse(text); isText && err == nil && u.Host != "" && (u.User != nil || u.RawQuery != "") {
			u.User, u.RawQuery = nil, "" // which may contain credentials
			v.Set(key, u.String())
		}
	}
	var b bytes.Buffer
	err = v.WriteConfigTo(&b)
	return b.Bytes(), err
}
