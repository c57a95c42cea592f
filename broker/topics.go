package broker

import "context"

// Topics shows the topics in use and how long they are remembered. Of an HP
// cluster, whose nodes each have topics of their own, nodeID names a node; 0 means
// every node, in the order of their numbers. Any other broker has one entry, and
// NotFound for any nodeID but 0.
type Topics interface {
	// HPNodes gives the numbers, in ascending order, of the nodes of the HP cluster
	// that the broker is in; none where it is in none.
	HPNodes(ctx context.Context) ([]int, error)
	ListTopics(ctx context.Context, nodeID, offset, count int) ([]TopicTree, error)
	GetTTL(ctx context.Context, nodeID int) ([]int64, error)
	SetTTL(ctx context.Context, nodeID int, seconds int64) error
}

// TopicTree is the topics of one node.
type TopicTree struct {
	PublishTopics   PublishTopics   `json:"publishTopics"`
	SubscribeTopics SubscribeTopics `json:"subscribeTopics"`
}

// PublishTopics are the topics that messages were published to.
type PublishTopics struct {
	Count  int            `json:"count"`
	Topics []string       `json:"topics"`
	Data   []PublishTopic `json:"data"`
}

// PublishTopic is a topic with its last message. Encoding is "base64" where
// the payload is no text. LastModified is in epoch milliseconds.
type PublishTopic struct {
	Topic        string `json:"topic"`
	Payload      string `json:"payload"`
	Encoding     string `json:"encoding,omitempty"`
	QoS          int    `json:"qos"`
	Retain       bool   `json:"retain"`
	LastModified int64  `json:"lastModified"`
	Messages     int64  `json:"messages"`
}

// SubscribeTopics are the topic filters that clients are subscribed to.
type SubscribeTopics struct {
	Count  int              `json:"count"`
	Topics []string         `json:"topics"`
	Data   []SubscribeTopic `json:"data"`
}

// SubscribeTopic is a topic filter with the number of its subscribers.
type SubscribeTopic struct {
	Topic   string `json:"topic"`
	Clients int    `json:"clients"`
}
