package console

import (
	"net/url"
	"slices"
	"strings"
)

// overviewView is the state of a broker at one look.
type overviewView struct {
	frame
	Record  part[brokerRecord]
	Info    part[brokerInfo]
	Denials part[[]denialRecord]
	History part[metricHistory]
	Figures []shownFigure
	Charts  []chart
	Ranges  []historyRange
	AsOf    int64  // time of the figures, 0 if there are none
	Events  string // link to the events that the figures and charts follow

	Health []fact // what deserves attention, of what the broker reports and the caller may read

	Software, Uptime string // what the broker reports of them, "" if it does not
	Cluster, Why     string // how its cluster works, and why it is away; "" for none
}

// brokerInfo is the response of getBrokerInfo.
type brokerInfo struct {
	SysTopics   sysSample   `json:"sysTopics"`
	History     []sysSample `json:"sysTopicsHistory"`
	IsConnected bool        `json:"isConnected"`
	License     license     `json:"licenseInfo"`
}

// license is the licence of a broker. Times are epoch milliseconds.
type license struct {
	Plan       string   `json:"plan"`
	Edition    string   `json:"edition"`
	IssuedBy   string   `json:"issuedBy"`
	IssuedTo   string   `json:"issuedTo"`
	ValidSince int64    `json:"validSince"`
	ValidUntil int64    `json:"validUntil"`
	Features   []string `json:"features"`
}

// shownFigure is a figure with its texts.
type shownFigure struct {
	figure
	Label string
	Text  string
}

// overviewDenials is how many denials the overview lists.
const overviewDenials = "5"

func viewOverview(q *request) (view, error) {
	v := &overviewView{}
	var g parts
	var h brokerHealth
	g.run(func() {
		if q.fetch(&v.Record, "getBroker", q.params, nil); v.Record.Value.Embedded() {
			h.loadEmbedded(&g, q)
		}
	})
	load(&g, q, &h.listeners, "listListeners", nil)
	load(&g, q, &v.Info, "getBrokerInfo", nil)
	load(&g, q, &v.History, "getMetricHistory", url.Values{"range": {q.historyRange()}})
	load(&g, q, &v.Denials, "listDenials", url.Values{"count": {overviewDenials}})
	g.wait()
	if e := v.Record.Err; e != nil {
		return nil, e
	}
	v.Events = q.brokerAPI("events")
	now := v.Info.Value.SysTopics
	v.AsOf, v.Software, v.Uptime = now.Date, now.Topics[sysPrefix+"version"], q.uptime(now.Topics[sysPrefix+"uptime"])
	v.Cluster, v.Why = q.clusterMode(orEmpty(v.Record.Value.ClusterMode)), q.inConnectionTerms(v.Record.Value.Status.Error)
	v.Health = h.facts(q, now)
	for _, f := range v.Info.Value.figures(q) {
		v.Figures = append(v.Figures, shownFigure{figure: f, Label: q.t("overview." + f.Name), Text: f.text(q.lang)})
	}
	if v.History.Err == nil {
		v.Charts = v.History.Value.charts(q)
	}
	for _, name := range historyRanges {
		v.Ranges = append(v.Ranges, historyRange{Text: q.t("overview.range." + name), Link: q.withQuery("range", name), Current: name == q.historyRange()})
	}
	return v, nil
}

// historyRanges are the times that the charts may show.
var historyRanges = []string{"1h", "1d", "3d", "30d"}

// historyRange is a link to the charts of another time.
type historyRange struct {
	Text, Link string
	Current    bool
}

// historyRange returns the time of the charts.
func (q *request) historyRange() string {
	if name := q.query.Get("range"); slices.Contains(historyRanges, name) {
		return name
	}
	return historyRanges[0]
}

// metricHistory is the response of getMetricHistory.
type metricHistory struct {
	From   int64 `json:"from"`
	Step   int   `json:"step"`
	Series map[string]struct {
		Mean []*float64 `json:"mean"`
	} `json:"series"`
}

// charts returns the charts of the overview: rates of messages, and connected clients.
func (h metricHistory) charts(q *request) []chart {
	series := func(name string) chartSeries {
		return chartSeries{Name: q.t("overview.series." + strings.ToLower(name)), Metric: name, Values: h.Series[name].Mean}
	}
	return []chart{
		q.newChart(chartData{ID: "chart-rate", Title: q.t("overview.chart.rate"), Unit: q.t("overview.per_second"), From: h.From, Step: h.Step,
			Series: []chartSeries{series("messagesIn"), series("messagesOut"), series("dropped")}}),
		q.newChart(chartData{ID: "chart-clients", Title: q.t("overview.chart.clients"), From: h.From, Step: h.Step, Whole: true, Series: []chartSeries{series("connected")}}),
	}
}

// figures returns the six figures of the overview.
func (i *brokerInfo) figures(q *request) []figure {
	samples := i.History
	if i.SysTopics.Date > 0 {
		samples = append(samples[:len(samples):len(samples)], i.SysTopics)
	}
	level := func(name, page, metric string, topics ...string) figure {
		points := levels(samples, topics...)
		v, ok := last(points)
		return figure{Name: name, Link: q.linkInBroker(page), Metric: metric, Known: ok, Value: v, Lines: sparkline(points)}
	}
	rate := func(name, page, metric string, topics ...string) figure {
		points := rates(samples, topics...)
		v, ok := last(points)
		return figure{Name: name, Link: q.linkInBroker(page), Metric: metric, Known: ok, Value: v, Lines: sparkline(points), Rate: true}
	}
	connected := level("connected", "sessions", "connected", "clients/connected")
	connected.Link = q.linkInBroker("sessions", "state", "connected")
	return []figure{
		connected,
		rate("in", "topics", "messagesIn", "publish/messages/received"),
		rate("out", "topics", "messagesOut", "publish/messages/sent"),
		level("subscriptions", "subscriptions", "subscriptions", "subscriptions/count", "shared_subscriptions/count"),
		level("retained", "retained", "retained", "retained messages/count"),
		rate("dropped", "sessions", "dropped", "publish/messages/dropped"),
	}
}
