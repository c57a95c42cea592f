package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/handlers/auth"
)

// BridgePath names a bridge of a broker.
type BridgePath struct {
	BrokerPath
	BridgeID string `path:"bridgeId" doc:"Id of the bridge, as listBridges returns it."`
}

// Locate finds the bridge.
func (p *BridgePath) Locate(ctx context.Context, a *API) error {
	b, err := a.featured(&p.BrokerPath)
	if err != nil {
		return nil //nolint:nilerr // unknown whether it has the bridge
	}
	_, err = b.GetBridgeConfig(ctx, p.BridgeID)
	return ifNotFound(err)
}

// ifNotFound returns a broker's error if it is of kind NotFound, otherwise nil.
func ifNotFound(err error) error {
	if err != nil && broker.KindOf(err) == broker.NotFound {
		return err
	}
	return nil
}

// ListBridgesRequest names a broker.
type ListBridgesRequest struct{ BrokerPath }

// ListBridges lists the bridges that the broker offers.
func (a *API) ListBridges(ctx context.Context, r *ListBridgesRequest) (List[broker.Bridge], error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return List[broker.Bridge]{}, err
	}
	bridges, err := b.ListBridges(ctx)
	return listOf(bridges), err
}

// GetBridgeConfigRequest names a bridge.
type GetBridgeConfigRequest struct{ BridgePath }

// GetBridgeConfig returns a bridge's configuration, its secrets masked.
func (a *API) GetBridgeConfig(ctx context.Context, r *GetBridgeConfigRequest) (json.RawMessage, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return nil, err
	}
	return b.GetBridgeConfig(ctx, r.BridgeID)
}

// SetBridgeConfigRequest has a bridge's configuration.
type SetBridgeConfigRequest struct {
	BridgePath
	Body json.RawMessage `object:"true" secret:"true" doc:"The whole configuration; the operation getBridgeSchema tells its form. A secret that is ******** stays as it is."`
}

// SetBridgeConfig changes a bridge's configuration.
func (a *API) SetBridgeConfig(ctx context.Context, r *SetBridgeConfigRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.SetBridgeConfig(ctx, r.BridgeID, r.Body)
}

// GetBridgeStatusRequest names a bridge.
type GetBridgeStatusRequest struct{ BridgePath }

// GetBridgeStatus returns the state of a bridge's connections.
func (a *API) GetBridgeStatus(ctx context.Context, r *GetBridgeStatusRequest) (List[broker.BridgeStatus], error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return List[broker.BridgeStatus]{}, err
	}
	status, err := b.GetBridgeStatus(ctx, r.BridgeID)
	return listOf(status), err
}

// GetBridgeSchemaRequest names a bridge.
type GetBridgeSchemaRequest struct{ BridgePath }

// GetBridgeSchema returns the JSON Schema of a bridge's configuration.
func (a *API) GetBridgeSchema(ctx context.Context, r *GetBridgeSchemaRequest) (json.RawMessage, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return nil, err
	}
	return b.GetBridgeSchema(ctx, r.BridgeID)
}

// TestBridgeRequest has a configuration, or none.
type TestBridgeRequest struct {
	BridgePath
	Body json.RawMessage `object:"true" secret:"true" optional:"true" doc:"The whole configuration, as for setBridgeConfig; absent is the one that is stored."`
}

// TestBridge tests the connections of a configuration.
func (a *API) TestBridge(ctx context.Context, r *TestBridgeRequest) (List[broker.BridgeTest], error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return List[broker.BridgeTest]{}, err
	}
	tests, err := b.TestBridge(ctx, r.BridgeID, r.Body)
	return listOf(tests), err
}

// PreviewBridgeRequest has a sample message, and a configuration or none.
type PreviewBridgeRequest struct {
	BridgePath
	Body struct {
		Config          json.RawMessage    `json:"config" object:"true" secret:"true" doc:"The whole configuration, as for setBridgeConfig; absent is the one that is stored." example:"{\"version\":\"v1\",\"connections\":[]}"`
		Topic           string             `json:"topic" required:"true" minlen:"1" doc:"Topic of the message, without wildcards." example:"sensors/7"`
		Payload         string             `json:"payload" nul:"true" doc:"Text, or base64 if encoding is base64; default empty." example:"{\"value\":2.5}"`
		Encoding        string             `json:"encoding" enum:"text|base64" doc:"How payload is written; default text." example:"text"`
		QoS             int                `json:"qos" min:"0" max:"2" doc:"QoS of the message; default 0." example:"1"`
		Retain          bool               `json:"retain" doc:"True for a retained message; default false." example:"false"`
		ContentType     string             `json:"contentType" doc:"MQTT 5 content type of the payload; default none." example:"application/json"`
		ResponseTopic   string             `json:"responseTopic" doc:"MQTT 5 topic for a response; default none." example:"-"`
		CorrelationData string             `json:"correlationData" doc:"MQTT 5 correlation data, base64; default none." example:"-"`
		UserProperties  []UserPropertyBody `json:"userProperties" doc:"MQTT 5 user properties in their order; default none."`
	}

	payload, correlation []byte
}

// Validate checks the topics and decodes base64.
func (r *PreviewBridgeRequest) Validate() (bad []FieldError) {
	if t := r.Body.Topic; t != "" && !broker.ValidTopic(t) {
		bad = append(bad, FieldError{"body.topic", notATopic})
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

// PreviewBridge returns what a message becomes for each topic mapping that takes it.
func (a *API) PreviewBridge(ctx context.Context, r *PreviewBridgeRequest) (List[broker.BridgePreview], error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return List[broker.BridgePreview]{}, err
	}
	sample := broker.PublishSpec{Topic: r.Body.Topic, Payload: r.payload, QoS: r.Body.QoS, Retain: r.Body.Retain,
		ContentType: r.Body.ContentType, ResponseTopic: r.Body.ResponseTopic, CorrelationData: r.correlation}
	for _, p := range r.Body.UserProperties {
		sample.UserProperties = append(sample.UserProperties, broker.UserProperty(p))
	}
	previews, err := b.PreviewBridge(ctx, r.BridgeID, r.Body.Config, sample)
	return listOf(previews), ofConfig(err)
}

// ofConfig returns an error about a configuration as one about the member config.
func ofConfig(err error) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	changed := *e
	changed.Fields = slices.Clone(e.Fields)
	for i, f := range changed.Fields {
		changed.Fields[i].Path = strings.TrimSuffix("config."+f.Path, ".")
	}
	return &changed
}

// DeadLetterPath names a connection of a bridge.
type DeadLetterPath struct {
	BridgePath
	ConnectionName string `path:"connectionName" doc:"Name of the connection in the configuration of the bridge."`
}

// Locate finds the bridge and its connection.
func (p *DeadLetterPath) Locate(ctx context.Context, a *API) error {
	b, err := a.featured(&p.BrokerPath)
	if err != nil {
		return nil //nolint:nilerr // unknown whether it has the connection
	}
	_, err = b.ListDeadLetters(ctx, p.BridgeID, p.ConnectionName, 0, 0)
	return ifNotFound(err)
}

// ListDeadLettersRequest asks for dead letters.
type ListDeadLettersRequest struct {
	DeadLetterPath
	Paging
}

// ListDeadLetters lists the messages that the target of a connection does not accept.
// The target's responses are only for editors: viewers may configure bridges, and could
// use them to read from systems that only this service reaches.
func (a *API) ListDeadLetters(ctx context.Context, r *ListDeadLettersRequest) (List[broker.DeadLetter], error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return List[broker.DeadLetter]{}, err
	}
	role, err := a.Auth.RoleIn(ctx, auth.From(ctx), r.ProjectID)
	if err != nil {
		return List[broker.DeadLetter]{}, err
	}
	page, err := b.ListDeadLetters(ctx, r.BridgeID, r.ConnectionName, r.Offset, r.Count)
	if !role.Allows(auth.Editor) {
		page.Items = withoutAnswers(page.Items)
	}
	return List[broker.DeadLetter]{page: page}, err
}

// withoutAnswers returns dead letters without the responses of their targets.
func withoutAnswers(letters iter.Seq2[broker.DeadLetter, error]) iter.Seq2[broker.DeadLetter, error] {
	if letters == nil {
		return nil
	}
	return func(yield func(broker.DeadLetter, error) bool) {
		for d, err := range letters {
			d.Answer = ""
			if !yield(d, err) {
				return
			}
		}
	}
}

// DeadLetterCount is the number of affected dead letters.
type DeadLetterCount struct {
	Count int `json:"count" doc:"Number of dead letters concerned." example:"2"`
}

// RetryDeadLettersRequest names dead letters of a connection, or none for all.
type RetryDeadLettersRequest struct {
	DeadLetterPath
	Body struct {
		IDs []string `json:"ids" minlen:"1" doc:"Ids of dead letters; absent means all." example:"17|18"`
	} `optional:"true"`
}

// RetryDeadLetters appends dead letters to the queue again.
func (a *API) RetryDeadLetters(ctx context.Context, r *RetryDeadLettersRequest) (DeadLetterCount, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return DeadLetterCount{}, err
	}
	n, err := b.RetryDeadLetters(ctx, r.BridgeID, r.ConnectionName, r.Body.IDs)
	return DeadLetterCount{n}, err
}

// DeleteDeadLettersRequest names dead letters of a connection, or none for all.
type DeleteDeadLettersRequest struct {
	DeadLetterPath
	IDs string `query:"ids" minlen:"1" doc:"Ids of dead letters, separated by commas; absent means all."`

	ids []string
}

// Validate parses the ids. A list that should name some and names none must not delete
// all.
func (r *DeleteDeadLettersRequest) Validate() []FieldError {
	if r.IDs == "" {
		return nil
	}
	if r.ids = strings.Split(r.IDs, ","); slices.Contains(r.ids, "") {
		return []FieldError{{"query.ids", "must be ids separated by commas"}}
	}
	return nil
}

// DeleteDeadLetters deletes dead letters.
func (a *API) DeleteDeadLetters(ctx context.Context, r *DeleteDeadLettersRequest) (DeadLetterCount, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return DeadLetterCount{}, err
	}
	n, err := b.DeleteDeadLetters(ctx, r.BridgeID, r.ConnectionName, r.ids)
	return DeadLetterCount{n}, err
}
