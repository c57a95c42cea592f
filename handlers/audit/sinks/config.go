package sinks

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"signalbox/broker/webhook"
)

// Config is the configuration under "audit.sinks.". An empty destination is none.
type Config struct {
	// File is the path of a file to which JSON lines are appended.
	File string `mapstructure:"file"`
	// Syslog is the URL of a receiver: tcp://HOST:PORT or tls://HOST:PORT.
	Syslog string `mapstructure:"syslog"`
	// Webhook is the URL to which JSON lines are posted, WebhookToken the bearer token for it, and
	// WebhookSecret that of the signature of each request.
	Webhook       string `mapstructure:"webhook"`
	WebhookToken  string `mapstructure:"webhook_token"`
	WebhookSecret string `mapstructure:"webhook_secret"`
	// CAFile has the certificates that those of tls:// and https:// must descend from; empty for
	// those of the system.
	CAFile string `mapstructure:"ca_file"`
	// MQTTTopic is a topic of the broker in this process.
	MQTTTopic string `mapstructure:"mqtt_topic"`
}

// Validate returns an error that names the keys with invalid values.
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("audit.sinks."+key+": "+format, args...))
	}
	if strings.HasSuffix(c.File, string(filepath.Separator)) {
		bad("file", "must be the path of a file, not of a folder")
	}
	if c.Syslog != "" && !isURL(c.Syslog, "tcp", "tls") {
		bad("syslog", "must be tcp://HOST:PORT or tls://HOST:PORT, such as tls://syslog.example.org:6514")
	}
	c.checkWebhook(bad)
	if t := c.MQTTTopic; strings.ContainsAny(t, "+#\x00") || strings.HasPrefix(t, "$CONTROL") || strings.HasPrefix(t, "$SYS") || strings.HasPrefix(t, "$share/") || len(t) > 65535 {
		bad("mqtt_topic", "must be a topic without wildcards, and not below $CONTROL, $SYS or $share")
	}
	return errors.Join(errs...)
}

func (c Config) checkWebhook(bad func(key, format string, args ...any)) {
	if c.Webhook != "" && !isURL(c.Webhook, "http", "https") {
		bad("webhook", "must be an http:// or https:// URL without a username")
	}
	if c.WebhookToken != "" && c.Webhook == "" {
		bad("webhook_token", "needs audit.sinks.webhook")
	}
	if c.WebhookSecret != "" && c.Webhook == "" {
		bad("webhook_secret", "needs audit.sinks.webhook")
	}
	if _, err := webhook.NewSigner(c.WebhookSecret); err != nil && c.WebhookSecret != "" {
		bad("webhook_secret", "%w", err)
	}
}

// isURL reports whether a text is a URL with one of the schemes, and a port if the schemes have no
// port of their own.
func isURL(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return false
	}
	for _, s := range schemes {
		if u.Scheme == s {
			return s == "http" || s == "https" || u.Port() != "" && (u.Path == "" || u.Path == "/")
		}
	}
	return false
}
