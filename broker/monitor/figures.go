package monitor

import (
	"math"
	"strconv"
	"strings"
)

// The metrics, in the order of the columns in the file: first those that are values,
// then those that are rates of counters.
const (
	connected = iota
	subscriptions
	retained
	messagesIn
	messagesOut
	bytesIn
	bytesOut
	dropped
	metricCount
)

const firstRate = messagesIn

// values are the metrics of a broker at one time, NaN if unknown.
type values [metricCount]float64

// unknown returns values of which none is known.
func unknown() (v values) {
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

func isKnown(v float64) bool { return !math.IsNaN(v) }

// sysPrefix is the prefix of a broker's topics about itself.
const sysPrefix = "$SYS/broker/"

// topicOf are the topics of the metrics, which Mosquitto and the embedded broker have in
// common; for a rate, that of its counter. Bytes are those of the connections. What
// Mosquitto calls messages/received are packets.
var topicOf = [metricCount]string{
	connected:     "clients/connected",
	subscriptions: "subscriptions/count",
	retained:      "retained messages/count",
	messagesIn:    "publish/messages/received",
	messagesOut:   "publish/messages/sent",
	bytesIn:       "bytes/received",
	bytesOut:      "bytes/sent",
	dropped:       "publish/messages/dropped",
}

// read returns the values and counters of a $SYS tree. The counter of subscriptions lacks
// shared ones, which have one of their own.
func read(topics map[string]string) values {
	var v values
	for i, name := range topicOf {
		v[i] = number(topics[sysPrefix+name])
	}
	if shared := number(topics[sysPrefix+"shared_subscriptions/count"]); isKnown(shared) {
		v[subscriptions] += shared
	}
	return v
}

// uptime returns the seconds since the broker started, NaN if unknown. Mosquitto writes
// "17 seconds".
func uptime(topics map[string]string) float64 {
	text, _, _ := strings.Cut(topics[sysPrefix+"uptime"], " ")
	return number(text)
}

// maxNumber bounds the numbers that a broker may report; larger ones are unknown, since
// thousandths of them could not be stored.
const maxNumber = 1e15

// number returns a count, NaN for a text that is none.
func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= maxNumber) {
		return math.NaN()
	}
	return v
}
