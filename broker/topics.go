package broker

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

// Topics lists the topics in use and manages how long they are kept. In an HP cluster,
// whose nodes each have topics of their own, nodeID names a node; 0 means every node,
// in the order of their numbers. Any other broker has one entry, and NotFound for any
// nodeID but 0.
type Topics interface {
	// HPNodes returns the numbers, in ascending order, of the nodes of the HP cluster
	// that the broker is in; none if it is in none.
	HPNodes(ctx context.Context) ([]int, error)
	ListTopics(ctx context.Context, nodeID, offset, count int) ([]TopicTree, error)
	// SelectTopics yields the selected topics of each node, in order. Where this service keeps
	// them, it copies no message but those that are requested.
	SelectTopics(ctx context.Context, nodeID int, s TopicSelection) ([]iter.Seq[KnownTopic], error)
	// TopicValues returns the numbers of the messages of topics over time, in the order of the
	// topics. They are recorded from the first call on, until a minute after the last one.
	TopicValues(ctx context.Context, nodeID int, topics []string) ([]TopicValues, error)
	// KnownTopics yields the topics that this service keeps for the broker at the moment,
	// in order. Unlike ListTopics it neither asks the broker nor has topics tracked from
	// then on, so there may be none.
	KnownTopics() iter.Seq[string]
	GetTTL(ctx context.Context, nodeID int) ([]int64, error)
	SetTTL(ctx context.Context, nodeID int, seconds int64) error
}

// TopicSelection selects topics: those that begin with a prefix or, if there are names, those
// of these names.
type TopicSelection struct {
	Prefix string
	Names  []string // sorted, each once
}

// Has reports whether a topic is selected.
func (s TopicSelection) Has(topic string) bool {
	if s.Names == nil {
		return strings.HasPrefix(topic, s.Prefix)
	}
	_, found := slices.BinarySearch(s.Names, topic)
	return found
}

// KnownTopic is a topic by its name, whose state is read only where it is needed.
type KnownTopic struct {
	Name string
	TopicState
}

// TopicState is what is known of a topic.
type TopicState interface {
	// Last returns the topic with its latest message.
	Last() PublishTopic
	// Rate returns the messages a second that the topic has had lately, seen from a time. It
	// reports false if this service does not observe the messages itself.
	Rate(now time.Time) (perSecond float64, known bool)
}

// TopicTree is the topics of one node.
type TopicTree struct {
	PublishTopics   PublishTopics   `json:"publishTopics" doc:"Topics to which messages were published."`
	SubscribeTopics SubscribeTopics `json:"subscribeTopics" doc:"Topic filters of current subscriptions."`
}

// PublishTopics are the topics that messages were published to.
type PublishTopics struct {
	Count  int            `json:"count" doc:"Number of topics before offset and count." example:"2"`
	Topics []string       `json:"topics" doc:"Names of the listed topics." example:"plant/7/raw|plant/8/raw"`
	Data   []PublishTopic `json:"data" doc:"The listed topics with their latest messages."`
}

// PublishTopic is a topic with its last message. Encoding is "base64" if the payload is
// not text. LastModified is in epoch milliseconds.
type PublishTopic struct {
	Topic        string `json:"topic" doc:"Topic." example:"plant/7/raw"`
	Payload      string `json:"payload" doc:"Latest payload: text if it is UTF-8, otherwise base64; at most its first 1000 bytes." example:"{\"speed\":2.5}"`
	Encoding     string `json:"encoding,omitempty" doc:"base64 if the payload is not text; otherwise absent." example:"-"`
	QoS          int    `json:"qos" doc:"QoS of the latest message, 0 to 2." example:"1"`
	Retain       bool   `json:"retain" doc:"True if the latest message was to be retained." example:"false"`
	LastModified int64  `json:"lastModified" format:"epoch-ms" doc:"Time of the latest message, in epoch milliseconds." example:"1769860800000"`
	Messages     int64  `json:"messages" doc:"Number of messages since the topic has been listed." example:"42"`
}

// SubscribeTopics are the topic filters that clients are subscribed to.
type SubscribeTopics struct {
	Count  int              `json:"count" doc:"Number of topic filters before offset and count." example:"1"`
	Topics []string         `json:"topics" doc:"The listed topic filters." example:"plant/#"`
	Data   []SubscribeTopic `json:"data" doc:"The listed topic filters with the number of their subscribers."`
}

// SubscribeTopic is a topic filter with the number of its subscribers.
type SubscribeTopic struct {
	Topic   string `json:"topic" doc:"Topic filter." example:"plant/#"`
	Clients int    `json:"clients" doc:"Number of subscribed clients." example:"3"`
}
