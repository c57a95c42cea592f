package appliance

import (
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/http"
	"signalbox/broker/bridges/influxdb"
	"signalbox/broker/bridges/kafka"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/nats"
	"signalbox/broker/bridges/sql"
)

// bridgeKinds returns all kinds of bridges.
func bridgeKinds() []bridges.Kind {
	return []bridges.Kind{http.New(), influxdb.Kind{}, kafka.Kind{}, mqtt.New(), nats.Kind{}, sql.Kind{}}
}
