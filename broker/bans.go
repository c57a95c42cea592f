package broker

import (
	"context"
	"net/netip"
	"time"
)

// Denials shows what clients were lately not allowed to do.
type Denials interface {
	// ListDenials gives the last denials, the newest first.
	ListDenials(ctx context.Context, offset, count int) (Page[Denial], error)
}

// Denial is something that a client was not allowed to do. Topic is empty where
// the client was not let in at all.
type Denial struct {
	At       time.Time `json:"at"`
	ClientID string    `json:"clientid"`
	Username string    `json:"username"`
	Address  string    `json:"address"`
	Action   Action    `json:"action"`
	Topic    string    `json:"topic,omitempty"`
	Reason   string    `json:"reason"`
}

// Bans keeps clients out, whatever their credentials.
type Bans interface {
	// ListBans gives the bans in force, in order of kind and value.
	ListBans(ctx context.Context, offset, count int) (Page[Ban], error)
	// AddBan bans, or changes a ban of the same kind and value. Who is connected
	// and banned is cut off.
	AddBan(ctx context.Context, b BanSpec) error
	DeleteBan(ctx context.Context, kind BanKind, value string) error
}

// BanKind is what a ban looks at.
type BanKind string

// The kinds of ban.
const (
	BanClientID BanKind = "clientid"
	BanUsername BanKind = "username"
	BanAddress  BanKind = "address" // an IP address, or a range of them as 10.0.0.0/8
)

// Ban is a ban in force. CreatedBy is "api", or "flapping" where the broker
// banned by itself. A zero ExpiresAt means never.
type Ban struct {
	Kind      BanKind   `json:"kind"`
	Value     string    `json:"value"`
	Reason    string    `json:"reason"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// BanSpec is a wanted ban; see Ban.
type BanSpec struct {
	Kind      BanKind
	Value     string
	Reason    string
	ExpiresAt time.Time
}

// BanValue gives the one form of a ban's value: of an address or a range of
// addresses the shortest, of anything else the value itself. It is not ok where
// the value cannot be that of the kind.
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
