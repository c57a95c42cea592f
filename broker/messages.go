package broker

import (
	"context"
	"encoding/base64"
	"time"
	"unicode/utf8"
)

// Messages reads and deletes retained messages, and publishes.
type Messages interface {
	// ListRetained returns the retained messages whose topics match a filter, ordered
	// by topic. Payloads are shown up to PreviewLimit.
	ListRetained(ctx context.Context, filter string, offset, count int) (Page[RetainedMessage], error)
	// GetRetained returns the retained message of a topic with its whole payload.
	GetRetained(ctx context.Context, topic string) (RetainedMessage, error)
	// DeleteRetained deletes the retained message of a topic.
	DeleteRetained(ctx context.Context, topic string) error
	// DeleteRetainedMatching deletes the retained messages whose topics match a
	// filter and returns their number; none is not an error.
	DeleteRetainedMatching(ctx context.Context, filter string) (int, error)
	// RetainedDeleter returns a RetainedDeleter, which the caller must close.
	RetainedDeleter() RetainedDeleter
	// Publish publishes in the broker's own name. It returns when the broker has
	// accepted the message, as far as its QoS requires that.
	Publish(ctx context.Context, p PublishSpec) error
	// Listen calls take once with each message that is published from now on to a topic
	// that one of the filters matches, until the feed is stopped or lost. take may be called
	// by several goroutines at once. It must neither block nor keep the payload, and call
	// Properties before it returns or not at all. The context bounds only the call to Listen.
	Listen(ctx context.Context, filters []string, take func(PublishedMessage)) (Feed, error)
}

// PublishedMessage is a message as it is published. What the broker does not report has its
// zero value.
type PublishedMessage struct {
	Topic      string
	Payload    []byte
	QoS        byte
	Retain     bool
	Properties func() *PublishedProperties // decodes them, nil for none, and for more than PreviewLimit bytes
	Omitted    bool                        // there are properties of more than PreviewLimit bytes
}

// Feed is an active subscription of the service itself.
type Feed interface {
	// Lost is closed when the subscription has ended.
	Lost() <-chan struct{}
	// Stop ends the subscription. It may be called more than once.
	Stop()
}

// RetainedDeleter deletes the retained messages of many topics, for which it needs less than
// as many calls of DeleteRetained. It is safe for concurrent use, which makes it faster.
type RetainedDeleter interface {
	// DeleteRetained deletes the retained message of a topic.
	DeleteRetained(ctx context.Context, topic string) error
	// Close releases what the RetainedDeleter holds. No call may be in progress.
	Close()
}

// RetainedMessage is the retained message of a topic. Encoding is "base64" if the
// payload is not text. Size is the length of the whole payload, in bytes; if Truncated
// is set, Payload is only its beginning. What the broker does not report is omitted: a
// broker that is reached over MQTT reports only topic and payload.
type RetainedMessage struct {
	Topic       string             `json:"topic" doc:"Topic of the message." example:"plant/7/state"`
	Payload     string             `json:"payload" doc:"Payload: text if it is UTF-8, otherwise base64. A list shows at most the first 1000 bytes." example:"online"`
	Encoding    string             `json:"encoding,omitempty" doc:"base64 if the payload is not text; otherwise absent." example:"-"`
	Truncated   bool               `json:"truncated,omitempty" doc:"True if the payload is only the beginning; otherwise absent." example:"-"`
	Size        int                `json:"size" doc:"Size of the whole payload, in bytes." example:"6"`
	QoS         *int               `json:"qos,omitempty" doc:"QoS of the message, 0 to 2. Absent if the broker does not report it." example:"1"`
	PublishedAt time.Time          `json:"publishedAt,omitzero" doc:"Time at which the message was published, RFC 3339. Absent if the broker does not report it." example:"2026-01-31T12:00:00Z"`
	ExpiresAt   time.Time          `json:"expiresAt,omitzero" doc:"Time at which the message expires, RFC 3339. Absent if it does not, or the broker does not report it." example:"-"`
	ClientID    string             `json:"clientid,omitempty" doc:"MQTT client id of the publisher. Absent if the broker does not report it." example:"meter-7"` // of the publisher, as the next
	Username    string             `json:"username,omitempty" doc:"Username of the publisher. Absent if it has none, or the broker does not report it." example:"meter-7"`
	Properties  *MessageProperties `json:"properties,omitempty" doc:"MQTT 5 properties of the message; absent if there are none."`
}

// MessageProperties are the properties of a message that MQTT 5 forwards
// [MQTT-3.3.2.3]. CorrelationData is base64.
type MessageProperties struct {
	ContentType     string         `json:"contentType,omitempty" doc:"Content type of the payload; absent for none." example:"text/plain"`
	ResponseTopic   string         `json:"responseTopic,omitempty" doc:"Topic for a response; absent for none." example:"-"`
	CorrelationData string         `json:"correlationData,omitempty" doc:"Correlation data, base64; absent for none." example:"-"`
	PayloadFormat   int            `json:"payloadFormat,omitempty" doc:"1 if the publisher declares the payload to be UTF-8 text; otherwise absent." example:"1"`
	UserProperties  []UserProperty `json:"userProperties,omitempty" doc:"User properties in their order; absent for none."`
}

// PublishedProperties are the properties of a message as it is published.
type PublishedProperties struct {
	MessageProperties
	Expiry int64 `json:"expiry,omitempty"` // seconds until the message expires; 0 for never
}

// UserProperty is a user property of MQTT 5. Names may repeat, and their order matters.
type UserProperty struct {
	Name  string `json:"name" doc:"Name of the property. Names may repeat." example:"unit"`
	Value string `json:"value" doc:"Value of the property." example:"kW"`
}

// PreviewLimit is how much of a payload a list shows, in bytes.
const PreviewLimit = 1000

// EncodingBase64 marks a payload that is not shown as text.
const EncodingBase64 = "base64"

// WithPayload returns the message with this payload shown: all of it, or with a limit
// that is not negative that many bytes of its beginning.
func (m RetainedMessage) WithPayload(payload []byte, limit int) RetainedMessage {
	m.Size = len(payload)
	m.Payload, m.Encoding, m.Truncated = ShowPayload(payload, limit)
	return m
}

// ShowPayload returns a payload as text if it is UTF-8, otherwise in base64, and the
// encoding. A limit that is not negative truncates it to that many bytes, or a few less
// to keep characters whole.
func ShowPayload(payload []byte, limit int) (shown, encoding string, truncated bool) {
	isText := utf8.Valid(payload)
	if truncated = limit >= 0 && len(payload) > limit; truncated {
		for isText && limit > 0 && !utf8.RuneStart(payload[limit]) {
			limit--
		}
		payload = payload[:limit]
	}
	if isText {
		return string(payload), "", truncated
	}
	return base64.StdEncoding.EncodeToString(payload), EncodingBase64, truncated
}

// PublishSpec is a message to publish. Expiry is in seconds, nil for none.
type PublishSpec struct {
	Topic           string
	Payload         []byte
	QoS             int
	Retain          bool
	Expiry          *uint32
	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	UserProperties  []UserProperty
}

// NeedsMQTT5 reports whether the message has properties that MQTT 3.1.1 cannot carry.
func (p PublishSpec) NeedsMQTT5() bool {
	return p.Expiry != nil || p.ContentType != "" || p.ResponseTopic != "" ||
		len(p.CorrelationData) > 0 || len(p.UserProperties) > 0
}

// ReceivedMessage is a message that was published while the service listened for it.
type ReceivedMessage struct {
	Topic     string `json:"topic"`
	Payload   string `json:"payload"`             // text if it is UTF-8, otherwise base64; at most PreviewLimit bytes of it
	Encoding  string `json:"encoding,omitempty"`  // base64 if the payload is not text
	Truncated bool   `json:"truncated,omitempty"` // the payload is only the beginning
	Size      int    `json:"size"`                // of the whole payload, in bytes
	QoS       int    `json:"qos"`                 // 0 for a remote broker
	Retain    bool   `json:"retain"`              // as published; false for a remote broker that does not speak MQTT 5
	At        int64  `json:"at"`                  // time of arrival, epoch milliseconds

	Properties *PublishedProperties `json:"properties,omitempty"`        // absent for none, and for a remote broker that does not speak MQTT 5
	Omitted    bool                 `json:"propertiesOmitted,omitempty"` // there are properties of more than PreviewLimit bytes
}
