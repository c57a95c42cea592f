package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
)

// Config is the configuration under "auth.".
type Config struct {
	// SessionTTL is the lifetime of a session.
	SessionTTL time.Duration `mapstructure:"session_ttl"`
	// ViewerReadOnly raises every writing operation that a viewer may call to Editor.
	ViewerReadOnly bool `mapstructure:"viewer_read_only"`
	// ProjectCreators may create projects: everyone, root, or the e-mail addresses of
	// users. Root administrators always may.
	ProjectCreators []string `mapstructure:"project_creators"`
	// Hashing is the cost of a password hash; nil is the product's. No key sets it: it
	// is for tests, which log in often.
	Hashing *argon2id.Params `mapstructure:"-"`
}

// DefaultConfig returns the values of an empty configuration.
func DefaultConfig() Config {
	return Config{SessionTTL: 24 * time.Hour, ProjectCreators: []string{creatorsEveryone}}
}

// The groups that auth.project_creators may name.
const (
	creatorsEveryone = "everyone"
	creatorsRoot     = "root"
)

// Validate returns an error that names the keys with invalid values.
func (c Config) Validate() error {
	var errs []error
	if c.SessionTTL < time.Minute {
		errs = append(errs, errors.New("auth.session_ttl: must be at least 1m"))
	}
	for i, who := range c.ProjectCreators {
		if who != creatorsEveryone && who != creatorsRoot && !strings.Contains(who, "@") {
			errs = append(errs, fmt.Errorf("auth.project_creators[%d]: %q is neither everyone, nor root, nor an e-mail address", i, who))
		}
	}
	return errors.Join(errs...)
}
