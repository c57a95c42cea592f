package broker

// Event is an event of a stream of events: the name of its type, and a JSON object.
type Event struct {
	Type string
	Data []byte
}

// MetricSample is the load of a broker at one time. Rates are per second; what is unknown is
// nil.
type MetricSample struct {
	At            int64    `json:"at"` // epoch milliseconds
	Connected     *float64 `json:"connected"`
	Subscriptions *float64 `json:"subscriptions"`
	Retained      *float64 `json:"retained"`
	MessagesIn    *float64 `json:"messagesIn"`
	MessagesOut   *float64 `json:"messagesOut"`
	BytesIn       *float64 `json:"bytesIn"`
	BytesOut      *float64 `json:"bytesOut"`
	Dropped       *float64 `json:"dropped"`
}

// ConnectionState is whether a broker is connected, since when, and if not, why. Since is
// epoch milliseconds.
type ConnectionState struct {
	Connected bool   `json:"connected"`
	Since     int64  `json:"since"`
	Error     string `json:"error,omitempty"`
}

// DenialsEvent has the denials since the last event, the newest first. With More there may
// be others between them and the last event.
type DenialsEvent struct {
	Denials []Denial `json:"denials"`
	More    bool     `json:"more"`
}
