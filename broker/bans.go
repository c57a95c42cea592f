package broker

import (
	"context"
	"net/netip"
	"time"
)

// Denials lists recently denied actions of clients.
type Denials interface {
	// ListDenials returns the last denials, the newest first.
	ListDenials(ctx context.Context, offset, count int) (Page[Denial], error)
}

// Denial is a denied action of a client. Topic is empty if the client was refused as a
// whole. Number is greater than those of all earlier denials.
type Denial struct {
	At       time.Time `json:"at" doc:"Time of the denial, RFC 3339." example:"2026-01-31T12:00:00Z"`
	ClientID string    `json:"clientid" doc:"MQTT client id." example:"meter-7"`
	Username string    `json:"username" doc:"Username; empty for a client without one." example:"meter-7"`
	Address  string    `json:"address" doc:"IP address of the client." example:"10.0.0.7"`
	Action   Action    `json:"action" doc:"What was denied: connect, publish, receive, subscribe or unsubscribe." example:"publish"`
	Topic    string    `json:"topic,omitempty" doc:"Topic or topic filter. Absent if the connection was denied." example:"plant/8/raw"`
	Reason   string    `json:"reason" doc:"Why it was denied, as a sentence." example:"no ACL matches, and the default for publishClientSend denies it"`

	Number int64 `json:"-"`
}

// Bans refuse clients, whatever their credentials.
type Bans interface {
	// ListBans returns the bans in force, in order of kind and value.
	ListBans(ctx context.Context, offset, count int) (Page[Ban], error)
	// AddBan bans, or changes a ban of the same kind and value. Connected clients to
	// which it applies are disconnected.
	AddBan(ctx context.Context, b BanSpec) error
	DeleteBan(ctx context.Context, kind BanKind, value string) error
}

// BanKind is the property of a client that a ban applies to.
type BanKind string

// The kinds of ban.
const (
	BanClientID BanKind = "clientid"
	BanUsername BanKind = "username"
	BanAddress  BanKind = "address" // an IP address, or a range of them as 10.0.0.0/8
)

// Ban is a ban in force. CreatedBy is "api", or "flapping" for an automatic one. A zero
// ExpiresAt means never.
type Ban struct {
	Kind      BanKind   `json:"kind" doc:"What the ban compares: clientid, username or address." example:"address"`
	Value     string    `json:"value" doc:"Client id, username, or IP address or range of addresses." example:"10.0.0.0/8"`
	Reason    string    `json:"reason" doc:"Why the client was banned; may be empty." example:"port scan"`
	CreatedAt time.Time `json:"created_at" doc:"Time at which the ban was created, RFC 3339." example:"2026-01-31T12:00:00Z"`
	CreatedBy string    `json:"created_by" doc:"Origin of the ban: api, or flapping if the broker banned a client that connects too often." example:"api"`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"Time at which the ban ends, RFC 3339. Absent if it does not end." example:"2026-02-28T12:00:00Z"`
}

// BanSpec is a wanted ban; see Ban.
type BanSpec struct {
	Kind      BanKind
	Value     string
	Reason    string
	ExpiresAt time.Time
}

// BanValue returns the canonical form of a ban's value: of an address or a range of
// addresses the shortest, of anything else the value itself. It returns false if the
// value is not valid for the kind.
func BanValue(kind BanKind, value string) (canonical string, ok bool) {
	if kind != BanAddress {
		return value, value != ""
	}
	if p, err := netip.ParsePrefix(value); err == nil {
		return p.Masked().String(), true
	}
	a, err := netip.ParseAddr(value)
	if err != nil || a.Zone() != "" {
		return "", false
	}
	return a.Unmap().String(), true
}
