package console

import "net/url"

// topClients is the sessions with the highest figures.
type topClients struct {
	Examined int         `json:"examined"`
	Clients  []topClient `json:"clients"`
}

// topClient is one of them; what the broker does not report is nil.
type topClient struct {
	ClientID      string   `json:"clientid"`
	Username      string   `json:"username"`
	Connected     bool     `json:"connected"`
	Queue         int64    `json:"queue"`
	QueueBytes    int64    `json:"queueBytes"`
	Dropped       *int64   `json:"dropped"`
	Rate          *float64 `json:"rate"`
	Inflight      *int64   `json:"inflight"`
	Subscriptions *int64   `json:"subscriptions"`
}

// topRow is a topClient with its texts.
type topRow struct {
	topClient
	DroppedText, RateText, InflightText, SubscriptionsText string
}

// loadTop loads the sessions with the highest figures.
func (v *sessionsView) loadTop(q *request) {
	var g parts
	load(&g, q, &v.Top, "topClients", url.Values{"by": {v.By}, "count": {"100"}})
	g.wait()
	v.Rows = v.Top.Value.rows(q.lang)
}

func (t *topClients) rows(l *locale) []topRow {
	text := func(n *int64) string {
		if n == nil {
			return ""
		}
		return l.number(*n)
	}
	var rows []topRow
	for _, c := range t.Clients {
		rows = append(rows, topRow{topClient: c, DroppedText: text(c.Dropped), RateText: l.rate(c.Rate), InflightText: text(c.Inflight),
			SubscriptionsText: text(c.Subscriptions)})
	}
	return rows
}
