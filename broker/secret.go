package broker

import "log/slog"

// Secret is a password or key. It prints, marshals and logs as stars; only a
// conversion to string reveals it.
type Secret string

const masked = "***"

// String masks the secret.
func (Secret) String() string { return masked }

// GoString masks the secret for %#v.
func (Secret) GoString() string { return masked }

// LogValue masks the secret in logs.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the secret in JSON and everywhere else.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }
