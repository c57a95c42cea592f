package broker

import "context"

// ClientRanker ranks the sessions of a broker.
type ClientRanker interface {
	// TopClients returns at most count sessions with the highest figures, the highest
	// first and equal ones by client id. A session whose figure is 0 is omitted.
	TopClients(ctx context.Context, by ClientFigure, count int) (TopClients, error)
}

// MaxTopClients is the maximum length of a list of TopClients.
const MaxTopClients = 100

// ClientFigure is a figure by which sessions are ranked.
type ClientFigure string

// The figures.
const (
	ByQueue         ClientFigure = "queue"         // messages that wait for the client
	ByDropped       ClientFigure = "dropped"       // messages that the client did not get
	ByRate          ClientFigure = "rate"          // messages from and to the client per second
	ByInflight      ClientFigure = "inflight"      // messages in flight, in both directions
	BySubscriptions ClientFigure = "subscriptions" // of the session
)

// TopClients are the sessions with the highest figures.
type TopClients struct {
	By       ClientFigure `json:"by" doc:"Figure by which the sessions are ordered." example:"queue"`
	Sessions int          `json:"sessions" doc:"Number of sessions of the broker." example:"100000"`
	Examined int          `json:"examined" doc:"Number of sessions that were compared. It is less than sessions only for a remote broker with more than 100,000 sessions." example:"100000"`
	Clients  []TopClient  `json:"clients" doc:"The highest figure first, equal ones in order of client ids. Sessions whose figure is 0 are omitted."`
}

// TopClient is a session in a list of TopClients. A figure that the broker does not
// report is nil.
type TopClient struct {
	ClientID      string   `json:"clientid" doc:"MQTT client id." example:"meter-7"`
	Username      string   `json:"username" doc:"Username; <anonymous> if no authentication was used." example:"meter-7"`
	Address       string   `json:"address" doc:"IP address of the client." example:"10.0.0.7"`
	Connected     bool     `json:"connected" doc:"True if the client is connected; false for a session without a connection." example:"true"`
	Queue         int64    `json:"queue" doc:"Number of messages that wait for the client." example:"4"`
	QueueBytes    int64    `json:"queueBytes" doc:"Size of the messages that wait, in bytes." example:"2048"`
	Dropped       *int64   `json:"dropped" doc:"Number of messages that the client did not get. Null if the broker does not report it." example:"0"`
	Rate          *float64 `json:"rate" doc:"Messages from and to the client per second, measured for 0.9 seconds. Null unless the list is ordered by it." example:"12.5"`
	Inflight      *int64   `json:"inflight" doc:"Number of messages in flight, in both directions. Null if the broker does not report it." example:"1"`
	Subscriptions *int64   `json:"subscriptions" doc:"Number of subscriptions. Null if the broker does not report it." example:"2"`
}
