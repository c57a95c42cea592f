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

// loadTop loads the sessions with the highest figures.
func (v *sessionsView) loadTop(q *request) {
	var g parts
	load(&g, q, &v.Top, "topClients", url.Values{"by": {v.By}, "count": {"100"}})
	g.wait()
}
