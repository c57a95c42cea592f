package auth

import (
	"errors"
	"time"
)

// Config is the configuration under "auth.".
type Config struct {
	// SessionTTL is how long a log-in lasts.
	SessionTTL time.Duration `mapstructure:"session_ttl"`
	// ViewerReadOnly raises every writing operation that a viewer may call to Editor.
	ViewerReadOnly bool `mapstructure:"viewer_read_only"`
}

// DefaultConfig gives the values of an empty configuration.
func DefaultConfig() Config { return Config{SessionTTL: 24 * time.Hour} }

// Validate names the keys whose values cannot be used.
func (c Config) Validate() error {
	if c.SessionTTL < time.Minute {
		return errors.New("auth.session_ttl: must be at least 1m")
	}
	return nil
}
