package handlers

import (
	"context"
	"encoding/base64"
	"strings"

	"signalbox/broker"
)

// The errors for an invalid topic or filter.
const (
	notATopic  = "is not a topic: it must be text without + and #"
	notAFilter = "is not a topic filter: # may only be the last level, and + and # must fill a level"
)

// isFilter reports whether retained messages can be requested by the filter: a shared
// subscription receives none [MQTT-4.8.2].
func isFilter(s string) bool {
	return broker.ValidFilter(s) && !strings.HasPrefix(s, "$share/")
}

// ListRetainedRequest requests retained messages, or with Topic one of them.
type ListRetainedRequest struct {
	BrokerPath
	Paging
	Filter string `query:"filter" default:"#" doc:"Topic filter. The filter # does not match topics that begin with $."`
	Topic  string `query:"topic" alone:"true" doc:"Return only the message of this topic, with its whole payload; the other parameters are then ignored."`
}

// Validate checks filter and topic.
func (r *ListRetainedRequest) Validate() []FieldError {
	switch {
	case r.Topic != "" && !broker.ValidTopic(r.Topic):
		return []FieldError{{"query.topic", notATopic}}
	case r.Topic == "" && !isFilter(r.Filter):
		return []FieldError{{"query.filter", notAFilter}}
	}
	return nil
}

// ListRetained lists retained messages, ordered by topic. Payloads are shown up to 1000
// bytes.
func (a *API) ListRetained(ctx context.Context, r *ListRetainedRequest) (List[broker.RetainedMessage], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.RetainedMessage]{}, err
	}
	if r.Topic != "" {
		m, err := b.GetRetained(ctx, r.Topic)
		return listOf([]broker.RetainedMessage{m}), err
	}
	page, err := b.ListRetained(ctx, r.Filter, r.Offset, r.Count)
	return List[broker.RetainedMessage]{page: page}, err
}

// DeleteRetainedRequest names the retained message of a topic, or all whose
// topics match a filter.
type DeleteRetainedRequest struct {
	BrokerPath
	Topic  string `query:"topic" doc:"Delete the message of this topic; 404 if it retains none. Either topic or filter is required."`
	Filter string `query:"filter" doc:"Delete the messages of all topics that match this filter."`
}

// Validate requires one of the two.
func (r *DeleteRetainedRequest) Validate() []FieldError {
	switch {
	case r.Topic == "" && r.Filter == "":
		return []FieldError{{"query.topic", "is required, unless filter is given"}}
	case r.Topic != "" && r.Filter != "":
		return []FieldError{{"query.filter", "must not be given beside topic"}}
	case r.Topic != "" && !broker.ValidTopic(r.Topic):
		return []FieldError{{"query.topic", notATopic}}
	case r.Filter != "" && !isFilter(r.Filter):
		return []FieldError{{"query.filter", notAFilter}}
	}
	return nil
}

// DeletedCount is the number of deleted messages.
type DeletedCount struct {
	Deleted int `json:"deleted" doc:"Number of messages that were deleted." example:"3"`
}

// DeleteRetained deletes retained messages.
func (a *API) DeleteRetained(ctx context.Context, r *DeleteRetainedRequest) (DeletedCount, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return DeletedCount{}, err
	}
	if r.Topic != "" {
		return DeletedCount{1}, b.DeleteRetained(ctx, r.Topic)
	}
	n, err := b.DeleteRetainedMatching(ctx, r.Filter)
	return DeletedCount{n}, err
}

// UserPropertyBody is a user property of MQTT 5.
type UserPropertyBody struct {
	Name  string `json:"name" required:"true" doc:"Name of the property. Names may repeat." example:"unit"`
	Value string `json:"value" required:"true" doc:"Value of the property." example:"kW"`
}

// PublishRequest has a message to publish.
type PublishRequest struct {
	BrokerPath
	Body struct {
		Topic           string             `json:"topic" required:"true" minlen:"1" doc:"Topic of the message, without wildcards; topics below $CONTROL, $SYS and $share are refused. A broker that is reached over MQTT 3.1.1 does not report that rights forbid the message." example:"plant/7/state"`
		Payload         string             `json:"payload" nul:"true" secret:"true" doc:"Text, or base64 if encoding is base64; default empty. An empty payload with retain deletes the retained message of the topic." example:"online"`
		Encoding        string             `json:"encoding" enum:"text|base64" doc:"How payload is written; default text." example:"text"`
		QoS             int                `json:"qos" min:"0" max:"2" doc:"QoS of the message; default 0." example:"1"`
		Retain          bool               `json:"retain" doc:"True makes the broker retain the message; default false." example:"true"`
		Expiry          *uint32            `json:"expiry" min:"0" max:"4294967295" doc:"Seconds after which the message is no longer delivered; absent: it does not expire. This and the members below need a broker that is not reached over MQTT 3.1.1, such as the embedded one." example:"3600"`
		ContentType     string             `json:"contentType" doc:"MQTT 5 content type of the payload; default none." example:"text/plain"`
		ResponseTopic   string             `json:"responseTopic" doc:"MQTT 5 topic for a response; default none." example:"-"`
		CorrelationData string             `json:"correlationData" doc:"MQTT 5 correlation data, base64; default none." example:"-"`
		UserProperties  []UserPropertyBody `json:"userProperties" doc:"MQTT 5 user properties in their order; default none."`
	}

	payload, correlation []byte
}

// Validate checks the topics and decodes base64.
func (r *PublishRequest) Validate() (bad []FieldError) {
	switch t := r.Body.Topic; {
	case t == "":
	case !broker.ValidTopic(t):
		bad = append(bad, FieldError{"body.topic", notATopic})
	case reservedTopic(t):
		bad = append(bad, FieldError{"body.topic", "begins with $CONTROL, $SYS or $share, where nothing is published: use the operations of this API"})
	}
	if t := r.Body.ResponseTopic; t != "" && !broker.ValidTopic(t) {
		bad = append(bad, FieldError{"body.responseTopic", notATopic})
	}
	r.payload = []byte(r.Body.Payload)
	if r.Body.Encoding == broker.EncodingBase64 {
		bad = append(bad, fromBase64("body.payload", r.Body.Payload, &r.payload)...)
	}
	return append(bad, fromBase64("body.correlationData", r.Body.CorrelationData, &r.correlation)...)
}

// reservedTopic reports whether a topic is reserved for brokers. A publish to $CONTROL
// is a command, which would bypass the roles of the API.
func reservedTopic(topic string) bool {
	level, _, _ := strings.Cut(topic, "/")
	return level == "$CONTROL" || level == "$SYS" || level == "$share"
}

func fromBase64(field, s string, into *[]byte) []FieldError {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return []FieldError{{field, "is not base64"}}
	}
	*into = b
	return nil
}

// Publish publishes a message.
func (a *API) Publish(ctx context.Context, r *PublishRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	spec := broker.PublishSpec{Topic: r.Body.Topic, Payload: r.payload, QoS: r.Body.QoS, Retain: r.Body.Retain,
		Expiry: r.Body.Expiry, ContentType: r.Body.ContentType, ResponseTopic: r.Body.ResponseTopic, CorrelationData: r.correlation}
	for _, p := range r.Body.UserProperties {
		spec.UserProperties = append(spec.UserProperties, broker.UserProperty(p))
	}
	return b.Publish(ctx, spec)
}

// ListSubscriptionsRequest requests subscriptions.
type ListSubscriptionsRequest struct {
	BrokerPath
	Paging
	ClientID     string `query:"clientid" doc:"Only the subscriptions of this client id."`
	FilterValue  string `query:"filterValue" doc:"Only subscriptions that match this value; empty returns all."`
	FilterMode   string `query:"filterMode" default:"contains" enum:"contains|equals|startsWith|endsWith|regex" doc:"How filterValue is compared. All modes but equals and regex ignore case. A regular expression (RE2) has at most 1000 bytes and 1000 instructions once compiled, and 5 seconds for the list."`
	FilterTarget string `query:"filterTarget" default:"topic" enum:"topic|clientid|username|share" doc:"Field that filterValue is compared with."`
}

// ListSubscriptions lists subscriptions, ordered by client id and then by topic.
func (a *API) ListSubscriptions(ctx context.Context, r *ListSubscriptionsRequest) (List[broker.Subscription], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Subscription]{}, err
	}
	o, err := options(Listing{Paging: r.Paging, Verbose: true, FilterValue: r.FilterValue, FilterMode: r.FilterMode},
		r.FilterTarget, broker.SubscriptionFilter)
	if err != nil {
		return List[broker.Subscription]{}, err
	}
	page, err := b.ListSubscriptions(ctx, broker.SubscriptionOptions{ListOptions: o, ClientID: r.ClientID})
	return List[broker.Subscription]{page: page}, err
}
