package broker

import "context"

// Inspector lists the connected clients, and the sessions of others, ordered by client
// id.
type Inspector interface {
	// InspectClients returns a page of the list. With rates, the call takes the time in
	// which the broker measures them, if it can.
	InspectClients(ctx context.Context, offset, count int, rates bool) (Page[ConnectedClient], error)
	InspectClient(ctx context.Context, clientID string) (ConnectedClientDetail, error)
}

// ConnectedClient is a connected client, or a disconnected session, in a list. Username
// is "<anonymous>" for a client without authentication. Times are epoch milliseconds;
// LastDisconnect is nil for one that never disconnected.
type ConnectedClient struct {
	Username        string       `json:"username" doc:"Username; <anonymous> if no authentication was used." example:"meter-7"`
	ClientID        string       `json:"clientid" doc:"MQTT client id." example:"meter-7"`
	Address         string       `json:"address" doc:"IP address of the client." example:"10.0.0.7"`
	Protocol        string       `json:"protocol" doc:"Protocol: MQTT, MQTT-SN or MQTT-WS." example:"MQTT"`
	ProtocolVersion string       `json:"protocolVersion" doc:"Version: v3.1, v3.1.1 or v5." example:"v5"`
	Connected       bool         `json:"connected" doc:"True if the client is connected; false for a session without a connection." example:"true"`
	LastConnect     int64        `json:"lastConnect" format:"epoch-ms" doc:"Time of the last connect, in epoch milliseconds." example:"1769860800000"`
	LastDisconnect  *int64       `json:"lastDisconnect" format:"epoch-ms" doc:"Time of the last disconnect, in epoch milliseconds; null if the client never disconnected." example:"null"`
	Queues          ClientQueues `json:"queues" doc:"Messages that wait for the client."`

	Listener         *ClientListener         `json:"listener,omitempty" doc:"Listener that accepted the connection. Absent without a connection, or if the broker does not report it."`
	NumSubscriptions *int64                  `json:"numSubscriptions,omitempty" doc:"Number of active subscriptions. Absent if the broker does not report it." example:"2"`
	NumDropped       *int64                  `json:"numDropped,omitempty" doc:"Number of messages that the client did not get. Absent if the broker does not report it." example:"0"`
	Inflight         *ClientInflightMessages `json:"inflight,omitempty" doc:"Messages that were sent and not acknowledged. Absent if the broker does not report them."`

	RateIn  *float64 `json:"rateIn,omitempty" doc:"Messages from the client per second, measured for 0.9 seconds. Absent unless rates is true, or if the broker does not report it." example:"12.5"`
	RateOut *float64 `json:"rateOut,omitempty" doc:"Messages to the client per second, measured for 0.9 seconds. Absent unless rates is true, or if the broker does not report it." example:"0"`
}

// ClientQueues is the queue of a client in the list of clients.
type ClientQueues struct {
	BytesOut         int64 `json:"bytesOut" doc:"Size of the messages that wait, in bytes." example:"2048"`
	BytesMax         int64 `json:"bytesMax" doc:"Limit of the messages that wait or are in flight, in bytes." example:"104857600"`
	MessagesOut      int64 `json:"messagesOut" doc:"Number of messages that wait." example:"4"`
	MessagesMax      int64 `json:"messagesMax" doc:"Limit of the number of messages that wait or are in flight." example:"10000"`
	PagedMessagesOut int64 `json:"pagedMessagesOut" doc:"Number of messages that were moved out of memory; 0 at the embedded broker." example:"0"`
	PagedMessagesMax int64 `json:"pagedMessagesMax" doc:"Limit of the number of messages moved out of memory; 0 at the embedded broker." example:"0"`
}

// ClientInflightMessages are the in-flight messages of a client in the list of clients.
type ClientInflightMessages struct {
	MessagesIn  int64 `json:"messagesIn" doc:"Messages from the client that are not fully acknowledged (QoS 2)." example:"0"`
	MessagesOut int64 `json:"messagesOut" doc:"Messages to the client that are not acknowledged." example:"1"`
}

// ConnectedClientDetail are all properties of one client's session.
type ConnectedClientDetail struct {
	Username         string            `json:"username" doc:"Username; <anonymous> if no authentication was used." example:"meter-7"`
	ClientID         string            `json:"clientid" doc:"MQTT client id." example:"meter-7"`
	Address          string            `json:"address" doc:"IP address of the client." example:"10.0.0.7"`
	Protocol         string            `json:"protocol" doc:"Protocol: MQTT, MQTT-SN or MQTT-WS." example:"MQTT"`
	ProtocolVersion  string            `json:"protocolVersion" doc:"Version: v3.1, v3.1.1 or v5." example:"v5"`
	NumSubscriptions int64             `json:"numSubscriptions" doc:"Number of active subscriptions." example:"2"`
	NumPublished     int64             `json:"numPublished" doc:"Number of messages published by the client." example:"1500"`
	NumSubscribed    int64             `json:"numSubscribed" doc:"Number of messages sent to the client." example:"320"`
	NumDropped       int64             `json:"numDropped" doc:"Number of messages that the client did not get. The embedded broker counts all reasons of dropped." example:"0"`
	Dropped          *ClientDrops      `json:"dropped,omitempty" doc:"Messages that the client did not get, by reason. Absent if the broker does not report them."`
	BytesPublished   int64             `json:"bytesPublished" doc:"Payload bytes received from the client." example:"48000"`
	BytesSubscribed  int64             `json:"bytesSubscribed" doc:"Payload bytes sent to the client." example:"10240"`
	Connected        bool              `json:"connected" doc:"True if the client is connected; false for a session without a connection." example:"true"`
	LastConnect      int64             `json:"lastConnect" format:"epoch-ms" doc:"Time of the last connect, in epoch milliseconds." example:"1769860800000"`
	LastDisconnect   *int64            `json:"lastDisconnect" format:"epoch-ms" doc:"Time of the last disconnect, in epoch milliseconds; null if the client never disconnected." example:"null"`
	Keepalive        int               `json:"keepalive" doc:"Keep-alive interval, in seconds; 0 means none." example:"60"`
	CleanSession     bool              `json:"cleanSession" doc:"True if the session ends with the connection." example:"false"`
	TLS              *ClientTLS        `json:"tls,omitempty" doc:"Encryption of the connection. Absent without TLS."`
	Listener         *ClientListener   `json:"listener,omitempty" doc:"Listener that accepted the connection. Absent if the broker does not report it."`
	Will             *ClientWill       `json:"will,omitempty" doc:"Will message of the connection; absent if there is none."`
	Subscriptions    []string          `json:"subscriptions" doc:"Topic filters of the subscriptions." example:"plant/#|alarms/+"`
	Queues           ClientQueueDetail `json:"queues" doc:"Messages that wait."`
	Inflight         ClientInflight    `json:"inflight" doc:"Messages that were sent and not acknowledged."`
}

// ClientTLS is the encryption of a client's connection.
type ClientTLS struct {
	ClientCertificate string `json:"clientCertificate" doc:"Certificate of the client, as PEM; empty for none." example:"-----BEGIN CERTIFICATE-----…"`
	Version           string `json:"version" doc:"TLS version." example:"TLS 1.3"`
	Ciphers           string `json:"ciphers" doc:"Cipher suite." example:"TLS_AES_128_GCM_SHA256"`
}

// ClientListener is the listener of a client's connection.
type ClientListener struct {
	Port        int    `json:"port" doc:"TCP port of the listener." example:"8883"`
	BindAddress string `json:"bind_address" doc:"Address of the listener." example:"0.0.0.0"`
}

// ClientWill is a client's Will. Payload is base64.
type ClientWill struct {
	Topic         string         `json:"topic" doc:"Topic of the Will message." example:"plant/7/state"`
	QoS           int            `json:"qos" doc:"QoS of the Will message, 0 to 2." example:"1"`
	Retain        bool           `json:"retain" doc:"True if the Will message is retained." example:"true"`
	Payload       string         `json:"payload" doc:"Payload of the Will message, base64." example:"b2ZmbGluZQ=="`
	Properties    []WillProperty `json:"properties" doc:"MQTT 5 properties of the Will message."`
	DelayInterval int64          `json:"delayInterval" doc:"Seconds between the end of the connection and the publication of the Will message." example:"0"`
}

// WillProperty is an MQTT 5 property of a Will.
type WillProperty struct {
	Identifier string `json:"identifier" doc:"Name of the property." example:"user-property"`
	Name       string `json:"name,omitempty" doc:"Name of a user property; absent for other properties." example:"unit"`
	Value      string `json:"value" doc:"Value of the property." example:"kW"`
}

// ClientQueueDetail is the state of one client's queues, in both directions.
type ClientQueueDetail struct {
	BytesIn          int64 `json:"bytesIn" doc:"Size of the messages from the client that wait, in bytes; 0 at the embedded broker." example:"0"`
	BytesOut         int64 `json:"bytesOut" doc:"Size of the messages to the client that wait, in bytes." example:"2048"`
	BytesMax         int64 `json:"bytesMax" doc:"Limit of the messages that wait or are in flight, in bytes." example:"104857600"`
	MessagesIn       int64 `json:"messagesIn" doc:"Number of messages from the client that wait; 0 at the embedded broker." example:"0"`
	MessagesMax      int64 `json:"messagesMax" doc:"Limit of the number of messages that wait or are in flight." example:"10000"`
	MessagesInQoS12  int64 `json:"messagesInQos12" doc:"Messages from the client with QoS 1 or 2 that wait; 0 at the embedded broker." example:"0"`
	MessagesOut      int64 `json:"messagesOut" doc:"Number of messages to the client that wait." example:"4"`
	MessagesOutQoS12 int64 `json:"messagesOutQos12" doc:"Messages to the client with QoS 1 or 2 that wait." example:"4"`
	PagedMessagesOut int64 `json:"pagedMessagesOut" doc:"Number of messages that were moved out of memory; 0 at the embedded broker." example:"0"`
	PagedMessagesMax int64 `json:"pagedMessagesMax" doc:"Limit of the number of messages moved out of memory; 0 at the embedded broker." example:"0"`
}

// ClientDrops are the messages that a client did not receive, by the reason: its queue
// was full, they expired, they exceeded its maximum packet size, or they could not be
// stored. NumDropped is their sum. Not every broker reports them.
type ClientDrops struct {
	QueueFull int64 `json:"queueFull" doc:"Messages dropped because the client's queue was full." example:"0"`
	Expired   int64 `json:"expired" doc:"Messages that expired before they were delivered." example:"0"`
	TooLarge  int64 `json:"tooLarge" doc:"Messages larger than the client accepts." example:"0"`
	NotStored int64 `json:"notStored" doc:"Messages that could not be stored." example:"0"`
}

// ClientInflight are one client's in-flight messages, in both directions.
type ClientInflight struct {
	BytesIn        int64 `json:"bytesIn" doc:"Size of the messages from the client in flight, in bytes; 0 at the embedded broker." example:"0"`
	BytesOut       int64 `json:"bytesOut" doc:"Size of the messages to the client in flight, in bytes." example:"512"`
	BytesMax       int64 `json:"bytesMax" doc:"Limit of the messages in flight, in bytes; 0 if there is none." example:"0"`
	MessagesIn     int64 `json:"messagesIn" doc:"Messages from the client that are not fully acknowledged (QoS 2)." example:"0"`
	MessagesInMax  int64 `json:"messagesInMax" doc:"Limit of messagesIn." example:"1024"`
	MessagesOut    int64 `json:"messagesOut" doc:"Messages to the client that are not acknowledged." example:"1"`
	MessagesOutMax int64 `json:"messagesOutMax" doc:"Limit of messagesOut: what the client asked for, at most messagesMax." example:"20"`
	MessagesMax    int64 `json:"messagesMax" doc:"Limit of messages in flight in the configuration of the broker." example:"1024"`
}
