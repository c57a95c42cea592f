package appliance

import "log/slog"

// Of the files that the process may open, HTTP gets at most a quarter, and databases,
// bridges and others at most another one, but no more than they need. The rest is for
// MQTT. So neither kind of connection prevents the other from being accepted.
const (
	share       = 4
	filesNeeded = 512
)

// fitDescriptors lowers bounds on connections to what a limit on open files allows, and
// logs that.
func (c Config) fitDescriptors(limit int, log *slog.Logger) Config {
	http := limit / share
	if c.HTTP.MaxConnections == 0 || c.HTTP.MaxConnections > http {
		c.HTTP.MaxConnections = http
	}
	mqtt := limit - c.HTTP.MaxConnections - min(filesNeeded, limit/share)
	if !c.Broker.Enabled || c.Broker.MaxConnections <= mqtt {
		return c
	}
	c.Broker.MaxConnections = mqtt
	if half := c.Broker.Limits.MaxHalfOpen; half == 0 || half > mqtt/share {
		c.Broker.Limits.MaxHalfOpen = mqtt / share
	}
	log.Warn("the limit on open files allows fewer connections than are configured; raise it (ulimit -n, LimitNOFILE) or lower broker.max_connections",
		"limit", limit, "mqtt", mqtt, "http", c.HTTP.MaxConnections)
	return c
}
