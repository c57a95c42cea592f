package broker

import "context"

// Inspector shows the clients that are connected, and the sessions of those
// that are not, in order of their client ids.
type Inspector interface {
	InspectClients(ctx context.Context, offset, count int) (Page[ConnectedClient], error)
	InspectClient(ctx context.Context, clientID string) (ConnectedClientDetail, error)
}

// ConnectedClient is a connected client, or a disconnected session, in a list.
// Username is "<anonymous>" where no authentication was used. Times are epoch
// milliseconds; LastDisconnect is nil for one that never disconnected.
type ConnectedClient struct {
	Username        string       `json:"username"`
	ClientID        string       `json:"clientid"`
	Address         string       `json:"address"`
	Protocol        string       `json:"protocol"`
	ProtocolVersion string       `json:"protocolVersion"`
	Connected       bool         `json:"connected"`
	LastConnect     int64        `json:"lastConnect"`
	LastDisconnect  *int64       `json:"lastDisconnect"`
	Queues          ClientQueues `json:"queues"`
}

// ClientQueues is what waits for a client in the list of clients.
type ClientQueues struct {
	BytesOut         int64 `json:"bytesOut"`
	BytesMax         int64 `json:"bytesMax"`
	MessagesOut      int64 `json:"messagesOut"`
	MessagesMax      int64 `json:"messagesMax"`
	PagedMessagesOut int64 `json:"pagedMessagesOut"`
	PagedMessagesMax int64 `json:"pagedMessagesMax"`
}

// ConnectedClientDetail is everything known of one client's session.
type ConnectedClientDetail struct {
	Username         string            `json:"username"`
	ClientID         string            `json:"clientid"`
	Address          string            `json:"address"`
	Protocol         string            `json:"protocol"`
	ProtocolVersion  string            `json:"protocolVersion"`
	NumSubscriptions int64             `json:"numSubscriptions"`
	NumPublished     int64             `json:"numPublished"`
	NumSubscribed    int64             `json:"numSubscribed"`
	NumDropped       int64             `json:"numDropped"`
	Dropped          *ClientDrops      `json:"dropped,omitempty"`
	BytesPublished   int64             `json:"bytesPublished"`
	BytesSubscribed  int64             `json:"bytesSubscribed"`
	Connected        bool              `json:"connected"`
	LastConnect      int64             `json:"lastConnect"`
	LastDisconnect   *int64            `json:"lastDisconnect"`
	Keepalive        int               `json:"keepalive"`
	CleanSession     bool              `json:"cleanSession"`
	TLS              *ClientTLS        `json:"tls,omitempty"`
	Listener         *ClientListener   `json:"listener,omitempty"`
	Will             *ClientWill       `json:"will,omitempty"`
	Subscriptions    []string          `json:"subscriptions"`
	Queues           ClientQueueDetail `json:"queues"`
	Inflight         ClientInflight    `json:"inflight"`
}

// ClientTLS is the encryption of a client's connection.
type ClientTLS struct {
	ClientCertificate string `json:"clientCertificate"`
	Version           string `json:"version"`
	Ciphers           string `json:"ciphers"`
}

// ClientListener is the listener that a client came in by.
type ClientListener struct {
	Port        int    `json:"port"`
	BindAddress string `json:"bind_address"`
}

// ClientWill is a client's Will. Payload is base64.
type ClientWill struct {
	Topic         string         `json:"topic"`
	QoS           int            `json:"qos"`
	Retain        bool           `json:"retain"`
	Payload       string         `json:"payload"`
	Properties    []WillProperty `json:"properties"`
	DelayInterval int64          `json:"delayInterval"`
}

// WillProperty is an MQTT 5 property of a Will.
type WillProperty struct {
	Identifier string `json:"identifier"`
	Name       string `json:"name,omitempty"`
	Value      string `json:"value"`
}

// ClientQueueDetail is what waits for, and from, one client.
type ClientQueueDetail struct {
	BytesIn          int64 `json:"bytesIn"`
	BytesOut         int64 `json:"bytesOut"`
	BytesMax         int64 `json:"bytesMax"`
	MessagesIn       int64 `json:"messagesIn"`
	MessagesMax      int64 `json:"messagesMax"`
	MessagesInQoS12  int64 `json:"messagesInQos12"`
	MessagesOut      int64 `json:"messagesOut"`
	MessagesOutQoS12 int64 `json:"messagesOutQos12"`
	PagedMessagesOut int64 `json:"pagedMessagesOut"`
	PagedMessagesMax int64 `json:"pagedMessagesMax"`
}

// ClientDrops are the messages that a client did not get, by the reason: its
// queue was full, they expired, they were larger than it takes, or they could
// not be stored. NumDropped is their sum. Not every broker tells them.
type ClientDrops struct {
	QueueFull int64 `json:"queueFull"`
	Expired   int64 `json:"expired"`
	TooLarge  int64 `json:"tooLarge"`
	NotStored int64 `json:"notStored"`
}

// ClientInflight is what is on its way to, and from, one client.
type ClientInflight struct {
	BytesIn        int64 `json:"bytesIn"`
	BytesOut       int64 `json:"bytesOut"`
	BytesMax       int64 `json:"bytesMax"`
	MessagesIn     int64 `json:"messagesIn"`
	MessagesInMax  int64 `json:"messagesInMax"`
	MessagesOut    int64 `json:"messagesOut"`
	MessagesOutMax int64 `json:"messagesOutMax"`
	MessagesMax    int64 `json:"messagesMax"`
}
