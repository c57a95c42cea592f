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
	// ListBridges gives what the broker offers, in order of the ids.
	ListBridges(ctx context.Context) ([]Bridge, error)
	// GetBridgeConfig gives the configuration, its secrets masked.
	GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error)
	// SetBridgeConfig replaces the configuration, or changes nothing and names
	// what is wrong with it. A secret that is masked stays as it is.
	SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error
	// GetBridgeStatus gives the state of each connection, in their order.
	GetBridgeStatus(ctx context.Context, bridgeID string) ([]BridgeStatus, error)

	// GetBridgeSchema gives the JSON Schema of the configuration.
	GetBridgeSchema(ctx context.Context, bridgeID string) (json.RawMessage, error)
	// TestBridge tries the connections of a configuration, or of the one that is
	// stored where it is nil, without any effect on those that are there.
	TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]BridgeTest, error)
	// ListDeadLetters gives the messages of a connection that its target does not
	// take, oldest first.
	ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (Page[DeadLetter], error)
	// RetryDeadLetters puts dead letters behind the queue again, all where ids is
	// empty, and tells how many.
	RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error)
	// DeleteDeadLetters deletes dead letters, all where ids is empty, and tells how
	// many.
	DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error)
}

// Bridge is a kind of bridge that a broker offers, active where it is configured.
type Bridge struct {
	ID       string `json:"id"`
	IsActive bool   `json:"isActive"`
}

// BridgeStatus is the state of one connection of a bridge.
type BridgeStatus struct {
	ConnectionName string `json:"connectionName"`
	QueuedMessages int64  `json:"queuedMessages"`
	IsConnected    bool   `json:"isConnected"`
	Error          string `json:"error,omitempty" doc:"Why there is no connection, or why messages are not delivered at present."`

	Stats *BridgeStats `json:"stats,omitempty" doc:"What became of the messages. An extension."`
}

// BridgeStats counts what became of a connection's messages since the service
// started; DeadLetters and QueuedBytes are what there is now.
type BridgeStats struct {
	QueuedBytes int64 `json:"queuedBytes"`
	Received    int64 `json:"received" doc:"Messages taken from the broker, one for each mapping that they belong to."`
	Delivered   int64 `json:"delivered"`
	Dropped     int64 `json:"dropped" doc:"Messages that went because the queue was full."`
	Rejected    int64 `json:"rejected" doc:"Messages that the target does not take; they became dead letters."`
	Retries     int64 `json:"retries" doc:"Attempts at delivery that failed and were made again."`
	Inbound     int64 `json:"inbound" doc:"Messages brought to the broker."`
	Looped      int64 `json:"looped" doc:"Messages left out because they had been where they were to go."`
	DeadLetters int64 `json:"deadLetters"`
}

// BridgeTest tells whether a connection could be made; Error says why not.
type BridgeTest struct {
	ConnectionName string `json:"connectionName"`
	IsConnected    bool   `json:"isConnected"`
	Error          string `json:"error,omitempty"`
}

// DeadLetter is a message that a target does not take. Its payload is shown as
// that of a RetainedMessage.
type DeadLetter struct {
	ID         string    `json:"id"`
	Topic      string    `json:"topic"`
	Payload    string    `json:"payload"`
	Encoding   string    `json:"encoding,omitempty"`
	Truncated  bool      `json:"truncated,omitempty"`
	Size       int       `json:"size"`
	QoS        int       `json:"qos"`
	Mapping    string    `json:"mapping" doc:"Name of the topic mapping."`
	ReceivedAt time.Time `json:"receivedAt"`
	RejectedAt time.Time `json:"rejectedAt"`
	Attempts   int       `json:"attempts"`
	Reason     string    `json:"reason" doc:"Why the target does not take it."`
	Answer     string    `json:"answer,omitempty" doc:"The beginning of what the target answered; shown to editors and admins."`
}

// NoBridges is embedded by a broker without bridges.
type NoBridges struct{}

// ListBridges answers Unsupported.
func (NoBridges) ListBridges(context.Context) ([]Bridge, error) {
	return nil, NotSupported("listBridges", CapBridges)
}

// GetBridgeConfig answers Unsupported.
func (NoBridges) GetBridgeConfig(context.Context, string) (json.RawMessage, error) {
	return nil, NotSupported("getBridgeConfig", CapBridges)
}

// SetBridgeConfig answers Unsupported.
func (NoBridges) SetBridgeConfig(context.Context, string, json.RawMessage) error {
	return NotSupported("setBridgeConfig", CapBridges)
}

// GetBridgeStatus answers Unsupported.
func (NoBridges) GetBridgeStatus(context.Context, string) ([]BridgeStatus, error) {
	return nil, NotSupported("getBridgeStatus", CapBridges)
}

// GetBridgeSchema answers Unsupported.
func (NoBridges) GetBridgeSchema(context.Context, string) (json.RawMessage, error) {
	return nil, NotSupported("getBridgeSchema", CapBridges)
}

// TestBridge answers Unsupported.
func (NoBridges) TestBridge(context.Context, string, json.RawMessage) ([]BridgeTest, error) {
	return nil, NotSupported("testBridge", CapBridges)
}

// ListDeadLetters answers Unsupported.
func (NoBridges) ListDeadLetters(context.Context, string, string, int, int) (Page[DeadLetter], error) {
	return Page[DeadLetter]{}, NotSupported("listDeadLetters", CapBridges)
}

// RetryDeadLetters answers Unsupported.
func (NoBridges) RetryDeadLetters(context.Context, string, string, []string) (int, error) {
	return 0, NotSupported("retryDeadLetters", CapBridges)
}

// DeleteDeadLetters answers Unsupported.
func (NoBridges) DeleteDeadLetters(context.Context, string, string, []string) (int, error) {
	return 0, NotSupported("deleteDeadLetters", CapBridges)
}
