package backup

import (
	"errors"
	"fmt"
)

// Config is the configuration under "backup.".
type Config struct {
	// Directory is where the service keeps its backups; "" for none.
	Directory string `mapstructure:"directory"`
	// Schedule is when it makes one; see [ParseSchedule].
	Schedule string `mapstructure:"schedule"`
	// Keep is which ones it keeps; see [ParseKeep].
	Keep string `mapstructure:"keep"`
	// Recipients are public keys of age, for which backups are encrypted.
	Recipients []string `mapstructure:"recipients"`
	// WithKey includes the key of the stored secrets.
	WithKey bool `mapstructure:"with_key"`
	// Settings is the configuration without secrets, which backups contain.
	Settings []byte `mapstructure:"-"`
}

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config { return Config{Keep: "7d,4w,12m", Recipients: []string{}} }

// Validate returns an error that names every key with an invalid value.
func (c Config) Validate() error {
	var errs []error
	if _, err := ParseSchedule(c.Schedule); err != nil {
		errs = append(errs, fmt.Errorf("backup.schedule: %w", err))
	}
	if _, err := ParseKeep(c.Keep); err != nil {
		errs = append(errs, fmt.Errorf("backup.keep: %w", err))
	}
	if _, err := ParseRecipients(c.Recipients); err != nil {
		errs = append(errs, fmt.Errorf("backup.recipients: %w", err))
	}
	if c.Schedule != "" && c.Directory == "" {
		errs = append(errs, errors.New("backup.schedule: needs backup.directory"))
	}
	if c.WithKey && len(c.Recipients) == 0 {
		errs = append(errs, errors.New("backup.with_key: needs backup.recipients, since the key is only written to an encrypted backup"))
	}
	return errors.Join(errs...)
}
