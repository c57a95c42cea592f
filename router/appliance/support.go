package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/embedded/access"
	"signalbox/router/appliance/doctor"
)

// Support are the options of SupportBundle.
type Support struct {
	Examination
	HideNames bool
	Log       []byte // taken if the log has no file
}

// The bounds of a bundle.
const (
	logTime  = 24 * time.Hour
	maxLog   = 32 << 20 // bytes
	maxNames = 200_000
)

// SupportBundle collects what helps to find out, elsewhere, what is wrong with an installation. It has
// no password, token, key or payload.
func SupportBundle(ctx context.Context, c Config, o Support) (*doctor.Bundle, error) {
	report := Examine(ctx, c, o.Examination)
	s, err := scrubber(ctx, c, o.HideNames)
	if err != nil {
		return nil, err
	}
	b := doctor.NewBundle(report.Time)
	if err := addReport(b, s, report); err != nil {
		return nil, err
	}
	configuration, err := c.Effective()
	if err != nil {
		return nil, err
	}
	b.Add(s, "configuration.yaml", "every key with its value", configuration)
	b.Add(s, "versions.txt", "of the program, its modules and the system", []byte(versions(o.Version)))
	b.Add(s, "files.txt", "names, sizes and modes of the files of the data directory", listFiles(c.DataDir))
	if err := addLog(b, s, c.Log.File, o.Log, report.Time); err != nil {
		return nil, err
	}
	return b, addRunning(ctx, b, s, c)
}

// addReport adds the report of doctor, in both formats.
func addReport(b *doctor.Bundle, s *doctor.Scrubber, r *doctor.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := r.Write(&table, func(text string) string { return text }); err != nil {
		return err
	}
	b.Add(s, "doctor.txt", "what doctor found", table.Bytes())
	b.Add(s, "doctor.json", "the same for programs", text)
	return nil
}

// addRunning adds what a running service knows about itself.
func addRunning(ctx context.Context, b *doctor.Bundle, s *doctor.Scrubber, c Config) error {
	d, err := AskRunning(ctx, c)
	if d == nil || err != nil {
		return nil //nolint:nilerr // the report of doctor has it
	}
	b.Add(s, "metrics.txt", "metrics of the running service", []byte(d.Metrics))
	b.Add(s, "goroutines.txt", "stacks of the running service, without arguments", []byte(d.Goroutines))
	d.Metrics, d.Goroutines = "", ""
	text, err := json.MarshalIndent(d, "", "  ")
	b.Add(s, "service.json", "version, addresses and peers of the running service", text)
	return err
}

// addLog adds the last day of the log; if that has no file, what is known of it.
func addLog(b *doctor.Bundle, s *doctor.Scrubber, path string, known []byte, now time.Time) error {
	if path == "" {
		if known != nil {
			b.Add(s, "log.txt", "the last lines of the log", known)
		}
		return nil
	}
	var text []byte
	for _, part := range []string{path + ".1", path} { // the first one is what was rotated last
		more, err := tail(part, now.Add(-logTime))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("log.file: %w", err)
		}
		text = append(text, more...)
	}
	if text == nil {
		return nil // the service has never run
	}
	if excess := len(text) - maxLog; excess > 0 {
		_, text, _ = bytes.Cut(text[excess:], []byte("\n"))
	}
	b.Add(s, "log.txt", "the last day of the log, at most 32 MiB", text)
	return nil
}

// tail returns the lines of a log since a time.
func tail(path string, since time.Time) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	begin := max(0, info.Size()-maxLog)
	text, err := io.ReadAll(io.NewSectionReader(f, begin, maxLog))
	if err != nil {
		return nil, err
	}
	if begin > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n")) // the line was cut
	}
	for rest := text; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if at, ok := timeOf(string(line)); ok && !at.Before(since) {
			return rest, nil
		}
		rest = after
	}
	return nil, nil
}

// timeOf returns the time of a line, in either format of the log.
func timeOf(line string) (at time.Time, ok bool) {
	for _, begin := range []string{`time=`, `{"time":"`} {
		if rest, found := strings.CutPrefix(line, begin); found {
			end := strings.IndexAny(rest, `" `)
			if end < 0 {
				return at, false
			}
			at, err := time.Parse(time.RFC3339, rest[:end])
			return at, err == nil
		}
	}
	return at, false
}

func versions(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signalbox %s\n%s %s/%s, %d processors\n", program, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if system, err := os.ReadFile("/proc/version"); err == nil {
		b.Write(system)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			fmt.Fprintf(&b, "%s %s\n", m.Path, m.Version)
		}
	}
	return b.String()
}

// listFiles lists the files of a directory; what cannot be read is listed with the cause.
func listFiles(dir string) []byte {
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", name, err)
			return nil
		}
		if info, err := entry.Info(); err == nil {
			fmt.Fprintf(&b, "%s %12d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), name)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.Bytes()
}

// scrubber returns one that knows all secrets of the installation.
func scrubber(ctx context.Context, c Config, hideNames bool) (*doctor.Scrubber, error) {
	all := c.secrets()
	if text, err := os.ReadFile(filepath.Join(c.DataDir, "initial-credentials")); err == nil {
		for line := range strings.Lines(string(text)) {
			if _, password, ok := strings.Cut(line, "password: "); ok {
				all = append(all, strings.TrimSpace(password))
			}
		}
	}
	s := doctor.NewScrubber(append(all, storedSecrets(ctx, c)...))
	if !hideNames {
		return s, nil
	}
	names, err := access.ClientNames(ctx, filepath.Join(c.DataDir, brokerFile), maxNames)
	if err != nil {
		return nil, err
	}
	s.HideNames(names)
	return s, nil
}

// storedSecrets decrypts the secrets of the databases, as far as they can be: a bundle is needed most
// where a database is damaged. The program writes none of them to a log or a report; the scrubber is
// there in case that another program, such as a broker, has sent one back.
func storedSecrets(ctx context.Context, c Config) (all []string) {
	e := &examination{c: c}
	e.findings = e.databases(ctx)
	e.secrets(ctx)
	if e.vault == nil {
		return nil
	}
	unseal := e.unsealer(ctx)
	_, _ = e.countSecrets(ctx, func(sealed, aad []byte) ([]byte, error) {
		plain, err := unseal(sealed, aad)
		if err == nil {
			all = append(all, secretsIn(plain)...)
		}
		return plain, err
	}) // the report of doctor has the error
	return all
}

// secretsIn returns the secrets of what was sealed: the configuration of a bridge, an object of
// secrets, or one secret.
func secretsIn(plain []byte) (all []string) {
	var object map[string]any
	if json.Unmarshal(plain, &object) != nil {
		return []string{string(plain)}
	}
	if _, isBridge := object["connections"]; isBridge {
		for _, k := range bridgeKinds() {
			all = append(all, bridges.Secrets(k, plain)...)
		}
		return all
	}
	for _, value := range object {
		if text, ok := value.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
