package appliance

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/embedded"
	"signalbox/broker/outbound"
	"signalbox/broker/streams"
	"signalbox/handlers"
	"signalbox/handlers/audit"
	"signalbox/handlers/auth"
	"signalbox/router"
	"signalbox/router/appliance/backup"
)

// Config is the whole configuration; each part belongs to the package that
// uses it.
type Config struct {
	DataDir string `mapstructure:"data_dir"`
	// DataCheckInterval is the minimum time between two checks of the databases for
	// damage.
	DataCheckInterval time.Duration `mapstructure:"data_check_interval"`

	HTTP     router.Config          `mapstructure:"http"`
	Admin    handlers.Admin         `mapstructure:"admin"`
	Auth     auth.Config            `mapstructure:"auth"`
	Audit    audit.Config           `mapstructure:"audit"`
	Broker   embedded.Config        `mapstructure:"broker"`
	Streams  streams.Config         `mapstructure:"streams"`
	Bridges  bridges.Config         `mapstructure:"bridges"`
	Outbound outbound.Config        `mapstructure:"outbound"`
	Cluster  embedded.ClusterConfig `mapstructure:"cluster"`
	Backup   backup.Config          `mapstructure:"backup"`
	Log      LogConfig              `mapstructure:"log"`
}

// LogConfig is the configuration under "log.".
type LogConfig struct {
	// File is the path of the log; empty for standard error.
	File string `mapstructure:"file"`
	// MaxSize is the size in bytes at which a new file is begun; 0 is never.
	MaxSize int64 `mapstructure:"max_size"`
	// MaxFiles is the number of files that are kept, with the one that is written to.
	MaxFiles int `mapstructure:"max_files"`

	Level  string `mapstructure:"level"`
	Format string `mapstructure:"format"`
	// Slow is the time from which on a request, and a command to a broker, is logged as a
	// warning; 0 is never.
	Slow time.Duration `mapstructure:"slow"`
	// Leveler is the level of an open log, which the API changes; nil if it cannot.
	Leveler *handlers.LogLevel `mapstructure:"-"`
}

// Bounds of the rotation of the log.
const (
	minLogSize  = 64 << 10
	maxLogFiles = 1000
)

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config {
	return Config{DataDir: "./data", DataCheckInterval: time.Minute, HTTP: router.DefaultConfig(), Admin: handlers.DefaultAdmin(),
		Auth: auth.DefaultConfig(), Audit: audit.DefaultConfig(), Broker: embedded.DefaultConfig(), Streams: streams.DefaultConfig(), Bridges: bridges.DefaultConfig(),
		Outbound: outbound.DefaultConfig(), Cluster: embedded.DefaultClusterConfig(), Backup: backup.DefaultConfig(),
		Log: LogConfig{MaxSize: 100 << 20, MaxFiles: 5, Level: "info", Format: "text", Slow: time.Second}}
}

// Validate returns an error that names every key with an invalid value.
func (c Config) Validate() error {
	c.Broker.Cluster = c.Cluster
	errs := []error{c.HTTP.Validate(), c.Admin.Validate(), c.Auth.Validate(), c.Audit.Validate(), c.Broker.Validate(), c.Streams.Validate(), c.Bridges.Validate(), c.Outbound.Validate(), c.Cluster.Validate(), c.Backup.Validate(), c.validateSharing()}
	if c.DataDir == "" {
		errs = append(errs, errors.New("data_dir: must not be empty"))
	}
	if d := c.Backup.Directory; d != "" && isWithin(d, c.DataDir) {
		errs = append(errs, errors.New("backup.directory: must not be in data_dir, which a restore replaces"))
	}
	if c.Audit.Sinks.MQTTTopic != "" && !c.Broker.Enabled {
		errs = append(errs, errors.New("audit.sinks.mqtt_topic: needs the broker in this process, which broker.enabled turns off"))
	}
	if c.DataCheckInterval < time.Second {
		errs = append(errs, errors.New("data_check_interval: must be at least 1s"))
	}
	if new(slog.Level).UnmarshalText([]byte(c.Log.Level)) != nil {
		errs = append(errs, errors.New("log.level: must be debug, info, warn or error"))
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		errs = append(errs, errors.New("log.format: must be text or json"))
	}
	if c.Log.MaxSize != 0 && c.Log.MaxSize < minLogSize {
		errs = append(errs, fmt.Errorf("log.max_size: must be 0 or at least %d", minLogSize))
	}
	if c.Log.MaxFiles < 1 || c.Log.MaxFiles > maxLogFiles {
		errs = append(errs, fmt.Errorf("log.max_files: must be 1 to %d", maxLogFiles))
	}
	if c.Log.Slow < 0 {
		errs = append(errs, errors.New("log.slow: must not be negative"))
	}
	return errors.Join(errs...)
}

func (c Config) validateSharing() error {
	if c.Cluster.ShareData && !c.Broker.Enabled {
		return errors.New("cluster.share_data: needs the broker in this process, which broker.enabled turns off")
	}
	return nil
}

// isWithin reports whether a path is a directory or below it.
func isWithin(path, dir string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	rest, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rest)
}

// logger returns the log of a valid configuration, which is written to w.
func (c LogConfig) logger(w io.Writer) *Log {
	l := &Log{Level: c.newLevel()}
	o := &slog.HandlerOptions{Level: l.Level}
	if c.Format == "json" {
		o.ReplaceAttr = withUnit
		l.Logger = slog.New(slog.NewJSONHandler(w, o))
	} else {
		l.Logger = slog.New(slog.NewTextHandler(w, o))
	}
	return l
}

// newLevel returns the level of a valid configuration.
func (c LogConfig) newLevel() *handlers.LogLevel {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // validated
	return handlers.NewLogLevel(level)
}

// withUnit writes durations with their unit, as text has them: JSON would have a number of
// nanoseconds.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
