package handlers

import (
	"context"
	"time"

	"signalbox/broker"
)

// ListBansRequest requests the bans.
type ListBansRequest struct {
	BrokerPath
	Paging
}

// ListBans lists the bans in force, ordered by kind and value.
func (a *API) ListBans(ctx context.Context, r *ListBansRequest) (List[broker.Ban], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Ban]{}, err
	}
	page, err := b.ListBans(ctx, r.Offset, r.Count)
	return List[broker.Ban]{page: page}, err
}

// notAnAddress is the error for the value of a ban.
const notAnAddress = "must be an IP address, or a range of them as 10.0.0.0/8"

// AddBanRequest describes a ban.
type AddBanRequest struct {
	BrokerPath
	Body struct {
		Kind      string         `json:"kind" required:"true" enum:"clientid|username|address" doc:"What the ban compares." example:"address"`
		Value     string         `json:"value" required:"true" minlen:"1" doc:"Client id or username, or an IP address or a range of them such as 10.0.0.0/8." example:"10.0.0.0/8"`
		Reason    string         `json:"reason" doc:"Reason that is shown with the ban; default empty." example:"port scan"`
		ExpiresAt Opt[time.Time] `json:"expires_at" nullable:"true" doc:"Time at which the ban ends, RFC 3339; it must be in the future. Absent or null: the ban does not end." example:"2036-01-31T12:00:00Z"`
	}

	now time.Time
}

// Resolve finds the broker, and sets the time for the check of the ban's end.
func (r *AddBanRequest) Resolve(ctx context.Context, a *API) error {
	r.now = a.Now()
	return r.BrokerPath.Resolve(ctx, a)
}

// Validate checks value and end.
func (r *AddBanRequest) Validate() (bad []FieldError) {
	kind := broker.BanKind(r.Body.Kind)
	if _, ok := broker.BanValue(kind, r.Body.Value); !ok && kind == broker.BanAddress && r.Body.Value != "" {
		bad = append(bad, FieldError{"body.value", notAnAddress})
	}
	if end := r.Body.ExpiresAt.Ptr(); end != nil && !end.IsZero() && !end.After(r.now) {
		bad = append(bad, FieldError{"body.expires_at", "must lie in the future"})
	}
	return bad
}

// AddBan refuses and disconnects a client, whatever its credentials. An existing ban is
// replaced.
func (a *API) AddBan(ctx context.Context, r *AddBanRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	kind := broker.BanKind(r.Body.Kind)
	value, _ := broker.BanValue(kind, r.Body.Value) // checked by Validate
	return b.AddBan(ctx, broker.BanSpec{Kind: kind, Value: value, Reason: r.Body.Reason, ExpiresAt: r.Body.ExpiresAt.Value})
}

// DeleteBanRequest names a ban.
type DeleteBanRequest struct {
	BrokerPath
	Kind  string `query:"kind" required:"true" enum:"clientid|username|address" doc:"What the ban compares."`
	Value string `query:"value" required:"true" minlen:"1" doc:"Value of the ban. Of an IP address or a range, any spelling."`
}

// Validate checks the value.
func (r *DeleteBanRequest) Validate() []FieldError {
	kind := broker.BanKind(r.Kind)
	if _, ok := broker.BanValue(kind, r.Value); !ok && kind == broker.BanAddress && r.Value != "" {
		return []FieldError{{"query.value", notAnAddress}}
	}
	return nil
}

// DeleteBan lifts a ban.
func (a *API) DeleteBan(ctx context.Context, r *DeleteBanRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	kind := broker.BanKind(r.Kind)
	value, _ := broker.BanValue(kind, r.Value) // checked by Validate
	return b.DeleteBan(ctx, kind, value)
}
