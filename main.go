// Command signalbox manages MQTT brokers through an HTTP API, and can run a
// broker of its own. This file holds the commands, and is the only place that
// reads flags, environment and configuration files; what the service is made
// of is in package appliance.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/router/appliance"
	"signalbox/router/client"
)

// Stamped by scripts/build.
var version, commit, date string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the whole program; it gives the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	root := commands(environ)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "signalbox: %v\n", err)
		return 1
	}
	return 0
}

// settings gives every key of a configuration with the type of its value.
func settings(t reflect.Type, prefix string, into map[string]reflect.Type) map[string]reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		key := prefix + f.Tag.Get("mapstructure")
		if strings.HasSuffix(key, "-") {
			continue // not configured
		}
		if f.Type.Kind() == reflect.Struct {
			settings(f.Type, key+".", into)
		} else {
			into[key] = f.Type
		}
	}
	return into
}

const envPrefix = "SIGNALBOX_"

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// secret tells whether a key holds a secret; these are no flags, because the
// arguments of a process are open to the whole machine.
func secret(key string) bool {
	return strings.HasSuffix(key, "password") || strings.HasSuffix(key, "token")
}

// loadConfig composes the configuration: flags over environment over file over
// defaults. Every key that is unknown or has a bad value is named.
func loadConfig(flags *pflag.FlagSet, environ []string) (appliance.Config, error) {
	v, known := viper.New(), settings(reflect.TypeFor[appliance.Config](), "", map[string]reflect.Type{})
	if file, err := flags.GetString("config"); err == nil && file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return appliance.Config{}, fmt.Errorf("configuration file %s: %w", file, err)
		}
	}
	var errs []error
	for _, key := range v.AllKeys() {
		if known[key] == nil {
			errs = append(errs, fmt.Errorf("%s: there is no such key", key))
		}
	}
	errs = append(errs, setEnv(v, known, environ)...)
	flags.Visit(func(f *pflag.Flag) {
		if t := known[f.Name]; t != nil {
			errs = append(errs, set(v, f.Name, "--"+f.Name, t, f.Value.String()))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return appliance.Config{}, err
	}
	c := appliance.DefaultConfig()
	if err := v.UnmarshalExact(&c, strict); err != nil {
		return appliance.Config{}, fmt.Errorf("configuration: %w", err)
	}
	return c, c.Validate()
}

// tokenEnv is read by the commands that call the API.
const tokenEnv = envPrefix + "TOKEN"

// fromKubernetes begins the variables that it sets for a service of our name.
var fromKubernetes = []string{envPrefix + "SERVICE_", envPrefix + "PORT"}

func setEnv(v *viper.Viper, known map[string]reflect.Type, environ []string) []error {
	keys := map[string]string{}
	for key := range known {
		keys[envName(key)] = key
	}
	var errs []error
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		ours := strings.HasPrefix(name, envPrefix) && name != tokenEnv
		key, found := keys[name]
		switch {
		case found:
			errs = append(errs, set(v, key, name, known[key], value))
		case ours && !slices.ContainsFunc(fromKubernetes, func(p string) bool { return strings.HasPrefix(name, p) }):
			errs = append(errs, fmt.Errorf("%s: there is no such setting", name))
		}
	}
	return errs
}

// set parses a value that came as text.
func set(v *viper.Viper, key, name string, t reflect.Type, text string) error {
	switch {
	case t == reflect.TypeFor[time.Duration](), t.Kind() == reflect.String:
		v.Set(key, text)
	case t.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s: must be true or false", name)
		}
		v.Set(key, b)
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: must be a whole number", name)
		}
		v.Set(key, n)
	case t == reflect.TypeFor[[]string]():
		v.Set(key, strings.FieldsFunc(text, func(r rune) bool { return r == ',' }))
	default:
		return fmt.Errorf("%s: can only be set in the configuration file", name)
	}
	return nil
}

// strict makes decoding refuse values of another type, and durations without a
// unit.
func strict(c *mapstructure.DecoderConfig) {
	c.WeaklyTypedInput = false
	c.DecodeHook = func(from, to reflect.Type, value any) (any, error) {
		if to != reflect.TypeFor[time.Duration]() || from == to {
			return value, nil
		}
		text, ok := value.(string)
		if !ok {
			return nil, errors.New("a duration needs a unit, as in 30s")
		}
		return time.ParseDuration(text)
	}
}

// commands builds the command line.
func commands(environ []string) *cobra.Command {
	root := &cobra.Command{Use: "signalbox", Short: "Manages MQTT brokers, and runs one",
		SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().String("config", "", "configuration file (YAML)")
	for key, t := range settings(reflect.TypeFor[appliance.Config](), "", map[string]reflect.Type{}) {
		if !secret(key) && t.Kind() != reflect.Slice {
			root.PersistentFlags().String(key, "", "environment "+envName(key))
		}
	}
	load := func(cmd *cobra.Command) (appliance.Config, error) { return loadConfig(cmd.Flags(), environ) }
	configCmd := &cobra.Command{Use: "config", Short: "Looks at the configuration"}
	configCmd.AddCommand(&cobra.Command{Use: "check", Short: "Says whether the configuration can be used", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := load(cmd)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			}
			return err
		}})
	root.AddCommand(configCmd,
		&cobra.Command{Use: "serve", Short: "Runs the service", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := load(cmd)
				if err != nil {
					return err
				}
				return serve(cmd.Context(), c, cmd.OutOrStdout(), c.Log.Logger(cmd.ErrOrStderr()))
			}},
		&cobra.Command{Use: "version", Short: "Prints the version", Args: cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "signalbox", versionText()) }},
		healthcheck(load), importCommand(load, environ), exportCommand(load, environ))
	return root
}

func versionText() string {
	if version != "" {
		return fmt.Sprintf("%s (commit %s, %s)", version, commit, date)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, c appliance.Config, out io.Writer, log *slog.Logger) error {
	a, err := appliance.Start(ctx, c, versionText(), log)
	if err != nil && ctx.Err() != nil {
		log.Info("stopped before the start was complete", "cause", err)
		return nil
	}
	if err != nil {
		return err
	}
	a.Greet(out)
	<-ctx.Done()
	log.Info("stopping")
	return a.Stop()
}

type configLoader func(*cobra.Command) (appliance.Config, error)

func healthcheck(load configLoader) *cobra.Command {
	return &cobra.Command{Use: "healthcheck", Short: "Asks the running service whether it is well", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			return client.Local(c.HTTP.Listen, c.HTTP.TLS.CertFile != "").Healthcheck(cmd.Context())
		}}
}

// transfer is where access control is moved to or from.
type transfer struct {
	load    configLoader
	environ []string

	url, token, broker string
	replace            bool
}

// command builds the command that the kinds of files hang below.
func (t *transfer) command(use, short string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.PersistentFlags().StringVar(&t.url, "url", "", "the running service, as http://127.0.0.1:8080; without it the data directory is used")
	c.PersistentFlags().StringVar(&t.token, "token", "", "token for the running service; better given as "+tokenEnv)
	c.PersistentFlags().StringVar(&t.broker, "broker", "", "id of the broker; the embedded one by default")
	return c
}

// with runs do on the running service, or on the data directory.
func (t *transfer) with(do func(cmd *cobra.Command, file string, a broker.AccessTransfer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := t.load(cmd)
		if err != nil {
			return err
		}
		if t.url != "" {
			return do(cmd, args[0], client.New(t.url, orEnv(t.token, t.environ, tokenEnv)).Access(t.broker))
		}
		err = appliance.Offline(cmd.Context(), c, func(a broker.AccessTransfer) error { return do(cmd, args[0], a) })
		if errors.Is(err, appliance.ErrRunning) {
			return fmt.Errorf("%w (while the service runs, give --url and --token)", err)
		}
		return err
	}
}

func exportCommand(load configLoader, environ []string) *cobra.Command {
	t := &transfer{load: load, environ: environ}
	parent := t.command("export", "Writes access control as a file for Mosquitto")
	parent.AddCommand(&cobra.Command{Use: "dynsec FILE", Short: "Writes dynamic-security.json, password hashes included",
		Args: cobra.ExactArgs(1), RunE: t.with(exportTo)})
	return parent
}

// reader reads a file as a dynamic-security document, with warnings.
type reader func(io.Reader) (document []byte, warnings []string, err error)

func importCommand(load configLoader, environ []string) *cobra.Command {
	t := &transfer{load: load, environ: environ}
	parent := t.command("import", "Takes access control over from Mosquitto's files")
	for kind, read := range map[string]reader{
		"dynsec": asItIs, "passwd": converted(dynsec.ParsePasswordFile), "acl": converted(dynsec.ParseACLFile),
	} {
		cmd := &cobra.Command{Use: kind + " FILE", Short: "Reads a " + kind + " file of Mosquitto, all or nothing", Args: cobra.ExactArgs(1),
			RunE: t.with(func(cmd *cobra.Command, file string, a broker.AccessTransfer) error {
				return importFrom(cmd, file, a, read, t.replace)
			})}
		if kind == "dynsec" {
			cmd.Flags().BoolVar(&t.replace, "replace", false, "the broker then holds exactly the file")
		}
		parent.AddCommand(cmd)
	}
	return parent
}

func orEnv(value string, environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok && value == "" {
			return v
		}
	}
	return value
}

// asItIs reads a document.
func asItIs(r io.Reader) ([]byte, []string, error) {
	b, err := io.ReadAll(r)
	return b, nil, err
}

// converted reads a file of another form.
func converted(parse func(io.Reader) (dynsec.Document, []string, error)) reader {
	return func(r io.Reader) ([]byte, []string, error) {
		d, warnings, err := parse(r)
		if err != nil {
			return nil, nil, err
		}
		b, err := d.Marshal()
		return b, warnings, err
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

// outcome says whether an import that failed may have happened all the same, as
// when the connection to the service is lost.
func outcome(err error) string {
	answer, answered := errors.AsType[*client.Error](err)
	own, ours := errors.AsType[*broker.Error](err)
	if answered && answer.Status < 500 || ours && own.Kind != broker.Unconfirmed {
		return "nothing was imported"
	}
	return "the outcome is not known, look before you repeat it"
}

func exportTo(cmd *cobra.Command, file string, a broker.AccessTransfer) error {
	doc, err := a.ExportAccess(cmd.Context())
	if err != nil {
		return err
	}
	if err := appliance.WritePrivate(file, doc); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "wrote", file)
	return nil
}
