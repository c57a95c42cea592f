package broker

// ValueStep is the length of an interval of TopicValues, in seconds.
const ValueStep = 1

// Why a topic is not recorded.
const (
	ValuesUnobserved = "unobserved" // its messages do not pass this service
	ValuesUntracked  = "untracked"  // the topic tree leaves it out
	ValuesLimit      = "limit"      // too many topics are recorded
)

// TopicValues are the numbers of a topic's messages over time, as equally long intervals
// without a gap between them.
type TopicValues struct {
	Topic    string        `json:"topic" doc:"Topic, as requested." example:"plant/7/raw"`
	Recorded bool          `json:"recorded" doc:"True if the numbers of the topic's messages are recorded from now on, if they were not already." example:"true"`
	Reason   string        `json:"reason,omitempty" enum:"unobserved|untracked|limit" doc:"Why they are not: unobserved if the service does not observe the messages itself, as in the tree of a remote broker's own plugin and of other nodes; untracked if the topic tree leaves the topic out; limit if the broker has 100 recorded topics already. Absent if recorded is true." example:"-"`
	From     int64         `json:"from" format:"epoch-ms" doc:"Start of the first interval, in epoch milliseconds; 0 if recorded is false." example:"1769860800000"`
	Step     int           `json:"step" doc:"Length of an interval, in seconds: 1." example:"1"`
	Series   []ValueSeries `json:"series" doc:"The numbers, in the order in which they were first seen; at most 4."`
}

// ValueSeries are the numbers of one member of a topic's messages; nil where there is none.
type ValueSeries struct {
	Name   string     `json:"name" doc:"Name of the member, with dots between those of nested objects; empty for a payload that is a number itself." example:"motor.speed"`
	Values []*float64 `json:"values" doc:"Mean of each interval, in order, of at most its first 128 messages or 128 KiB; null for one in which no message had the number." example:"[2.5,null]"`
}

// NotRecorded returns topics without numbers, for a reason.
func NotRecorded(reason string, topics ...string) []TopicValues {
	list := make([]TopicValues, 0, len(topics))
	for _, topic := range topics {
		list = append(list, TopicValues{Topic: topic, Reason: reason, Step: ValueStep, Series: []ValueSeries{}})
	}
	return list
}
