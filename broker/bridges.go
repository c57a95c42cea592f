package broker

import (
	"context"
	"encoding/json"
	"time"
)

// Bridges connects a broker to other systems. A bridge is named by its kind, such
// as "http-bridge"; it has any number of connections, which its configuration
// describes.
type Bridges interface {
	// ListBridges returns the bridges that the broker supports, ordered by id.
	ListBridges(ctx context.Context) ([]Bridge, error)
	// GetBridgeConfig returns the configuration, its secrets masked.
	GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error)
	// SetBridgeConfig replaces the configuration, or changes nothing and returns all
	// its errors. A masked secret stays unchanged.
	SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error
	// GetBridgeStatus returns the state of each connection, in the order of the
	// configuration.
	GetBridgeStatus(ctx context.Context, bridgeID string) ([]BridgeStatus, error)

	// GetBridgeSchema returns the JSON Schema of the configuration.
	GetBridgeSchema(ctx context.Context, bridgeID string) (json.RawMessage, error)
	// TestBridge tests the connections of a configuration, or of the stored one if it
	// is nil, without affecting existing connections.
	TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]BridgeTest, error)
	// PreviewBridge returns what a message becomes for each topic mapping that takes it, with
	// a configuration, or the stored one if it is nil, without sending anything.
	PreviewBridge(ctx context.Context, bridgeID string, config json.RawMessage, sample PublishSpec) ([]BridgePreview, error)
	// ListDeadLetters returns the messages of a connection that its target does not
	// accept, oldest first.
	ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (Page[DeadLetter], error)
	// RetryDeadLetters appends dead letters to the queue again, all if ids is empty,
	// and returns their number.
	RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error)
	// DeleteDeadLetters deletes dead letters, all if ids is empty, and returns their
	// number.
	DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error)
}

// Bridge is a kind of bridge that a broker supports, active if it is configured.
type Bridge struct {
	ID       string `json:"id" doc:"Id of the bridge." example:"http-bridge"`
	IsActive bool   `json:"isActive" doc:"True if at least one connection is configured." example:"true"`
}

// BridgeStatus is the state of one connection of a bridge.
type BridgeStatus struct {
	ConnectionName string `json:"connectionName" doc:"Name of the connection." example:"history"`
	QueuedMessages int64  `json:"queuedMessages" doc:"Number of messages that wait for delivery." example:"12"`
	IsConnected    bool   `json:"isConnected" doc:"True if the target is reachable." example:"true"`
	Error          string `json:"error,omitempty" doc:"Why there is no connection, or why messages are not delivered at present. Absent if there is no error." example:"127.0.0.1:9000 refuses connections"`

	Stats *BridgeStats `json:"stats,omitempty" doc:"Counters of the messages since the start of the service, and the current sizes. An extension."`
}

// BridgeStats counts a connection's messages since the service started; DeadLetters and
// QueuedBytes are the current state.
type BridgeStats struct {
	QueuedBytes int64 `json:"queuedBytes" doc:"Size of the messages that wait for delivery now, in bytes." example:"1460"`
	Received    int64 `json:"received" doc:"Messages received from the broker, counted once for each mapping that they belong to." example:"112"`
	Delivered   int64 `json:"delivered" doc:"Messages that the target has accepted." example:"100"`
	Dropped     int64 `json:"dropped" doc:"Messages dropped because the queue was full." example:"0"`
	Rejected    int64 `json:"rejected" doc:"Messages that the target refuses, or that cannot be converted; they became dead letters." example:"0"`
	Retries     int64 `json:"retries" doc:"Attempts at delivery that failed and were repeated." example:"3"`
	Inbound     int64 `json:"inbound" doc:"Messages brought in to the broker." example:"0"`
	Looped      int64 `json:"looped" doc:"Messages left out because they had already been at their target." example:"0"`
	DeadLetters int64 `json:"deadLetters" doc:"Number of dead letters now." example:"0"`
}

// BridgeTest reports whether a connection succeeded; Error is the reason if not.
type BridgeTest struct {
	ConnectionName string `json:"connectionName" doc:"Name of the connection." example:"history"`
	IsConnected    bool   `json:"isConnected" doc:"True if the target could be reached." example:"false"`
	Error          string `json:"error,omitempty" doc:"Why the target could not be reached. Absent if it could." example:"127.0.0.1:9000 refuses connections"`
}

// BridgePreview is what a message becomes for a topic mapping. Its payload is shown as that
// of a RetainedMessage.
type BridgePreview struct {
	ConnectionName string            `json:"connectionName" doc:"Name of the connection." example:"history"`
	Mapping        string            `json:"mapping" doc:"Name of the topic mapping." example:"all sensors"`
	Destination    string            `json:"destination,omitempty" doc:"Where it would be sent within the target: method and URL, topic, subject, measurement or table. Absent if there is an error." example:"POST http://127.0.0.1:9000/ingest"`
	Payload        string            `json:"payload" doc:"What would be sent: text if it is UTF-8, otherwise base64; at most its first 16 KiB. For a database it is the record, before its values are converted to the types of the columns." example:"{\"sensor\":\"plant/7/raw\"}"`
	Encoding       string            `json:"encoding,omitempty" doc:"base64 if the payload is not text; otherwise absent." example:"-"`
	Truncated      bool              `json:"truncated,omitempty" doc:"True if the payload is only the beginning; otherwise absent." example:"-"`
	Size           int               `json:"size" doc:"Size of the whole payload, in bytes." example:"24"`
	Attributes     []BridgeAttribute `json:"attributes,omitempty" doc:"What would be sent beside the payload, such as headers, a key or QoS; at most 100. Those of the connection, which may be secrets, are left out."`
	Error          string            `json:"error,omitempty" doc:"Why the message would become a dead letter. Absent if it would not." example:"-"`
}

// BridgeAttribute is what a bridge sends beside a payload.
type BridgeAttribute struct {
	Name      string `json:"name" doc:"Name of the attribute; at most its first 1000 bytes. Names may repeat." example:"Content-Type"`
	Value     string `json:"value" doc:"Value: text if it is UTF-8, otherwise base64; at most its first 1000 bytes." example:"application/json"`
	Encoding  string `json:"encoding,omitempty" doc:"base64 if the value is not text; otherwise absent." example:"-"`
	Truncated bool   `json:"truncated,omitempty" doc:"True if the value is only the beginning; otherwise absent." example:"-"`
}

// DeadLetter is a message that a target does not accept. Its payload is shown as that
// of a RetainedMessage.
type DeadLetter struct {
	ID         string    `json:"id" doc:"Id of the dead letter, unique in the connection." example:"17"`
	Topic      string    `json:"topic" doc:"Topic of the message." example:"plant/7/raw"`
	Payload    string    `json:"payload" doc:"Payload: text if it is UTF-8, otherwise base64; at most its first 1000 bytes." example:"{\"speed\":\"fast\"}"`
	Encoding   string    `json:"encoding,omitempty" doc:"base64 if the payload is not text; otherwise absent." example:"-"`
	Truncated  bool      `json:"truncated,omitempty" doc:"True if the payload is only the beginning; otherwise absent." example:"-"`
	Size       int       `json:"size" doc:"Size of the whole payload, in bytes." example:"16"`
	QoS        int       `json:"qos" doc:"QoS of the message, 0 to 2." example:"1"`
	Mapping    string    `json:"mapping" doc:"Name of the topic mapping." example:"all sensors"`
	ReceivedAt time.Time `json:"receivedAt" doc:"Time at which the message was received from the broker, RFC 3339." example:"2026-01-31T12:00:00Z"`
	RejectedAt time.Time `json:"rejectedAt" doc:"Time at which it became a dead letter, RFC 3339." example:"2026-01-31T12:00:01Z"`
	Attempts   int       `json:"attempts" doc:"Number of attempts at delivery." example:"1"`
	Reason     string    `json:"reason" doc:"Why the target refuses the message." example:"the target refuses the message: 422 Unprocessable Entity"`
	Answer     string    `json:"answer,omitempty" doc:"Beginning of the target's response; only editors and admins see it." example:"{\"error\":\"speed must be a number\"}"`
}

// NoBridges is embedded by a broker without bridges.
type NoBridges struct{}

// ListBridges returns Unsupported.
func (NoBridges) ListBridges(context.Context) ([]Bridge, error) {
	return nil, NotSupported("listBridges", CapBridges)
}

// GetBridgeConfig returns Unsupported.
func (NoBridges) GetBridgeConfig(context.Context, string) (json.RawMessage, error) {
	return nil, NotSupported("getBridgeConfig", CapBridges)
}

// SetBridgeConfig returns Unsupported.
func (NoBridges) SetBridgeConfig(context.Context, string, json.RawMessage) error {
	return NotSupported("setBridgeConfig", CapBridges)
}

// GetBridgeStatus returns Unsupported.
func (NoBridges) GetBridgeStatus(context.Context, string) ([]BridgeStatus, error) {
	return nil, NotSupported("getBridgeStatus", CapBridges)
}

// GetBridgeSchema returns Unsupported.
func (NoBridges) GetBridgeSchema(context.Context, string) (json.RawMessage, error) {
	return nil, NotSupported("getBridgeSchema", CapBridges)
}

// TestBridge returns Unsupported.
func (NoBridges) TestBridge(context.Context, string, json.RawMessage) ([]BridgeTest, error) {
	return nil, NotSupported("testBridge", CapBridges)
}

// PreviewBridge returns Unsupported.
func (NoBridges) PreviewBridge(context.Context, string, json.RawMessage, PublishSpec) ([]BridgePreview, error) {
	return nil, NotSupported("previewBridge", CapBridges)
}

// ListDeadLetters returns Unsupported.
func (NoBridges) ListDeadLetters(context.Context, string, string, int, int) (Page[DeadLetter], error) {
	return Page[DeadLetter]{}, NotSupported("listDeadLetters", CapBridges)
}

// RetryDeadLetters returns Unsupported.
func (NoBridges) RetryDeadLetters(context.Context, string, string, []string) (int, error) {
	return 0, NotSupported("retryDeadLetters", CapBridges)
}

// DeleteDeadLetters returns Unsupported.
func (NoBridges) DeleteDeadLetters(context.Context, string, string, []string) (int, error) {
	return 0, NotSupported("deleteDeadLetters", CapBridges)
}
