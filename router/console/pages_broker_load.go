package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// loadedBroker is a broker in a list, with what it does now.
type loadedBroker struct {
	brokerRecord
	history part[metricHistory]
	Load    []string // the texts of loadMetrics
	Kind    cell     // what broker it is, with its version
}

// loadMetrics are the metrics of the history that lists of brokers show.
var loadMetrics = []struct {
	Name   string
	isRate bool
}{{"connected", false}, {"messagesIn", true}, {"messagesOut", true}}

// maxLoads bounds the brokers of a page whose history is read.
const maxLoads = 100

// loadAge is how old the newest values may be. The history has one for every ten seconds.
const loadAge = time.Minute

// loadNow reads the newest values of a broker that is connected.
func (b *loadedBroker) loadNow(g *parts, q *request, project string) {
	if b.Status.Connected {
		loadWith(g, q, &b.history, "getMetricHistory", map[string]string{"projectId": project, "brokerId": b.ID},
			url.Values{"step": {"10"}, "from": {strconv.FormatInt(time.Now().Add(-loadAge).UnixMilli(), 10)}})
	}
}

// loaded returns the brokers of a list with their load, of the first n.
func (q *request) loaded(g *parts, project string, list []brokerRecord, n int) []loadedBroker {
	brokers := make([]loadedBroker, len(list))
	for i := range brokers {
		b := &brokers[i]
		b.brokerRecord = list[i]
		b.Status.Error, b.Kind = q.inConnectionTerms(b.Status.Error), q.kindOf(&list[i])
		if i < n {
			b.loadNow(g, q, project)
		}
	}
	return brokers
}

// kindOf returns what broker a connection leads to, and its version, as far as they are known.
func (q *request) kindOf(b *brokerRecord) cell {
	name, version, named := strings.Cut(b.Status.Version, " version ")
	switch {
	case b.Embedded():
		return cell{Text: q.t("brokers.kind.embedded"), Quiet: version}
	case named && name == "mosquitto":
		return cell{Text: "Mosquitto", Quiet: version}
	case named && name == "signalbox":
		return cell{Text: name, Quiet: version}
	case b.Status.Version != "" || b.Status.Connected:
		return cell{Text: "MQTT", Quiet: b.Status.Version}
	}
	return cell{}
}

// setTexts completes the brokers, once their history was read.
func setTexts(l *locale, brokers []loadedBroker) {
	for i := range brokers {
		b := &brokers[i]
		for _, m := range loadMetrics {
			b.Load = append(b.Load, b.history.Value.newest(m.Name, m.isRate).text(l))
		}
	}
}

// newest returns the newest value of a metric that is known.
func (h metricHistory) newest(metric string, isRate bool) figure {
	values := h.Series[metric].Mean
	for i := len(values) - 1; i >= 0; i-- {
		if values[i] != nil {
			return figure{Known: true, Value: *values[i], Rate: isRate}
		}
	}
	return figure{}
}

// loadHead returns the heads of the columns, and what the abbreviated ones stand for.
func (q *request) loadHead() (heads []string, full map[string]string) {
	in, out := q.t("sessions.in"), q.t("sessions.out")
	return []string{q.t("brokers.connected"), in, out}, map[string]string{in: q.t("brokers.messagesIn"), out: q.t("brokers.messagesOut")}
}
