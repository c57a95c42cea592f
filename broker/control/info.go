package control

import (
	"context"
	"encoding/json"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// Plugin is a part of a broker with control topics.
type Plugin struct {
	Name      string   `json:"name"`
	Version   string   `json:"version,omitempty"`
	Endpoints []string `json:"control-endpoints,omitempty"`
	Active    *bool    `json:"active,omitempty"` // of a bridge, whether it is configured; nil if unknown. An extension.
}

// Plugins is the data of listPlugins.
type Plugins struct {
	Plugins []Plugin `json:"plugins"`
}

// Listeners is the data of listListeners.
type Listeners struct {
	Listeners []Listener `json:"listeners"`
}

// Listener is a listener in Mosquitto's terms. BindAddress is absent if it listens on
// all interfaces, SocketPath is that of a Unix socket.
type Listener struct {
	ID                 int    `json:"id"`
	Port               int    `json:"port"`
	Protocol           string `json:"protocol"`
	BindAddress        string `json:"bind-address,omitempty"`
	SocketPath         string `json:"socket-path,omitempty"`
	TLS                bool   `json:"tls"`
	RequireCertificate bool   `json:"require-certificate"`
}

// BrokerInfo executes a request on BrokerTopic. It calls listeners only if they are
// requested.
func BrokerInfo(ctx context.Context, plugins []Plugin, listeners func(context.Context) ([]broker.Listener, error), payload []byte) []byte {
	return serve(ctx, payload,
		command{opListPlugins, func(context.Context, dynsec.Object) (any, error) {
			return Plugins{append([]Plugin{}, plugins...)}, nil
		}},
		command{opListListeners, func(ctx context.Context, _ dynsec.Object) (any, error) {
			all, err := listeners(ctx)
			l := Listeners{make([]Listener, 0, len(all))}
			for _, one := range all {
				l.Listeners = append(l.Listeners, listenerOf(one))
			}
			return l, err
		}},
	)
}

func listenerOf(l broker.Listener) Listener {
	out := Listener{ID: l.ID, Port: l.Port, Protocol: l.Protocol, BindAddress: l.BindAddress,
		TLS: l.TLS, RequireCertificate: l.RequireCertificate}
	if l.Port == 0 { // the address of a Unix socket is a path
		out.BindAddress, out.SocketPath = "", l.BindAddress
	}
	return out
}

// View returns the listeners for the API, without certificates. Listeners without an id
// are numbered from 1.
func (l Listeners) View() []broker.Listener {
	all := make([]broker.Listener, len(l.Listeners))
	for i, one := range l.Listeners {
		all[i] = broker.Listener{ID: one.ID, Port: one.Port, BindAddress: one.BindAddress, Protocol: one.Protocol,
			TLS: one.TLS, RequireCertificate: one.RequireCertificate, Certs: []broker.ListenerCert{}}
		if one.ID == 0 {
			all[i].ID = i + 1
		}
		if one.BindAddress == "" {
			all[i].BindAddress = one.SocketPath
		}
	}
	return all
}

// License is the data of getLicenseInformation. Times are epoch milliseconds.
type License struct {
	Plan       string           `json:"plan,omitempty"`
	Edition    string           `json:"edition"`
	IssuedBy   string           `json:"issuedBy"`
	IssuedTo   string           `json:"issuedTo"`
	ValidSince int64            `json:"validSince"`
	ValidUntil int64            `json:"validUntil"`
	Features   []LicenseFeature `json:"features"`
}

// LicenseFeature is a feature of a licence.
type LicenseFeature struct {
	Name string `json:"name"`
}

// UnmarshalJSON accepts a name alone as well.
func (f *LicenseFeature) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &f.Name)
	}
	type object LicenseFeature
	return json.Unmarshal(b, (*object)(f))
}

// LicenseInfo executes a request on LicenseTopic. It calls license only if it is
// requested.
func LicenseInfo(ctx context.Context, license func(context.Context) (broker.License, error), payload []byte) []byte {
	return serve(ctx, payload, command{opGetLicense, func(ctx context.Context, _ dynsec.Object) (any, error) {
		l, err := license(ctx)
		return licenseOf(l), err
	}})
}

func licenseOf(l broker.License) License {
	out := License{Plan: l.Plan, Edition: l.Edition, IssuedBy: l.IssuedBy, IssuedTo: l.IssuedTo,
		ValidSince: l.ValidSince, ValidUntil: l.ValidUntil, Features: make([]LicenseFeature, 0, len(l.Features))}
	for _, name := range l.Features {
		out.Features = append(out.Features, LicenseFeature{name})
	}
	return out
}

// View returns the licence for the API.
func (l License) View() broker.License {
	v := broker.License{Plan: l.Plan, Edition: l.Edition, IssuedBy: l.IssuedBy, IssuedTo: l.IssuedTo,
		ValidSince: l.ValidSince, ValidUntil: l.ValidUntil, Features: []string{}}
	for _, f := range l.Features {
		if f.Name != "" {
			v.Features = append(v.Features, f.Name)
		}
	}
	return v
}
