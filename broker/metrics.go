package broker

// MetricHistory is the load of a broker over time, as equally long intervals without a
// gap between them. From and To are epoch milliseconds.
type MetricHistory struct {
	From   int64      `json:"from" format:"epoch-ms" doc:"Start of the first interval, in epoch milliseconds." example:"1769860800000"`
	To     int64      `json:"to" format:"epoch-ms" doc:"End of the last interval, in epoch milliseconds." example:"1769860830000"`
	Step   int        `json:"step" doc:"Length of an interval, in seconds." example:"10"`
	Series MetricSets `json:"series" doc:"Values of the intervals, by metric."`
}

// MetricSets are the metrics of a history. Rates are per second.
type MetricSets struct {
	Connected     MetricSeries `json:"connected" doc:"Connected clients."`
	Subscriptions MetricSeries `json:"subscriptions" doc:"Subscriptions, shared ones included."`
	Retained      MetricSeries `json:"retained" doc:"Retained messages."`
	MessagesIn    MetricSeries `json:"messagesIn" doc:"Messages that clients published, per second."`
	MessagesOut   MetricSeries `json:"messagesOut" doc:"Messages sent to clients, per second."`
	BytesIn       MetricSeries `json:"bytesIn" doc:"Bytes received, per second, as counted by the broker."`
	BytesOut      MetricSeries `json:"bytesOut" doc:"Bytes sent, per second, as counted by the broker."`
	Dropped       MetricSeries `json:"dropped" doc:"Messages that did not reach a client, per second."`
}

// MetricSeries are the values of one metric, one for each interval; nil if unknown.
type MetricSeries struct {
	Mean []*float64 `json:"mean" doc:"Mean of each interval, in order. Null if the broker was not connected or does not report the metric, and for a rate also if the counter before is unknown." example:"[41.5,null]"`
	Max  []*float64 `json:"max,omitempty" doc:"Highest value of each interval. Absent for intervals of 10 seconds, of which there is one value." example:"[44,null]"`
}
