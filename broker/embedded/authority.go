package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/access"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/hosted"
)

// Reason codes of MQTT 5 with which clients are refused.
const (
	codeNotAuthorized     = 0x87
	codeServerUnavailable = 0x88
	codeBanned            = 0x8A
	codeRateExceeded      = 0x9F
)

// authority decides for the engine which clients may connect and what they may do.
type authority struct{ b *Broker }

// Authenticate admits a client that is not banned, whose address has not exceeded the limit
// of failed log-ins, and whose credentials are right; and the platform of another node, which
// nothing of that applies to.
func (a authority) Authenticate(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	b := a.b
	if node := l.Socket.Node; node != 0 { // the cluster port has authenticated it
		if node == clusterClient {
			return engine.Admission{Username: clusterUsername, Rights: clusterRights{}}, nil
		}
		return engine.Admission{Username: nodeUsername(node), Rights: allRights{}}, nil
	}
	if b.isReserved(l) {
		return engine.Admission{}, &engine.Refusal{Reason: codeNotAuthorized, Text: "the username or client id is that of the streams and bridges of the cluster"}
	}
	addr := l.Socket.IP
	if err := b.loginAllowed(addr); err != nil {
		return engine.Admission{}, err
	}
	username := l.Username
	if l.Socket.Identity != "" {
		username = l.Socket.Identity
	}
	if ban, banned := b.bans.Banned(l.ClientID, username, addr); banned {
		return engine.Admission{}, &engine.Refusal{Reason: codeBanned, Text: "banned by " + string(ban.Kind)}
	}
	admission, err := a.admit(ctx, l)
	var refusal *engine.Refusal
	if errors.As(err, &refusal) {
		b.limits.LoginFailed(addr)
	}
	return admission, err
}

// clusterUsername is the username under which the client for the streams and bridges of the cluster is shown, the same at all nodes: it
// has the sessions.
const clusterUsername = "cluster streams and bridges"

// isReserved reports whether a client would have the sessions of the streams and bridges of the cluster, or keep these from them.
func (b *Broker) isReserved(l *engine.Login) bool {
	if l.Username == clusterUsername || l.Socket.Identity == clusterUsername {
		return true
	}
	d := b.config.Definitions
	return d != nil && strings.HasPrefix(l.ClientID, hosted.ClientIDPrefix) && strings.HasPrefix(l.ClientID, hosted.ClientID(d.ClientID()))
}

// nodeUsername returns the username under which the platform of another node is shown.
func nodeUsername(node int) string { return fmt.Sprintf("cluster node %d", node) }

// allRights are the rights of the platform of another node, which are those of the one in this process. They never end.
type allRights struct{}

// Allowed returns true.
func (allRights) Allowed(engine.Kind, string) bool { return true }

// Revoked returns false.
func (allRights) Revoked() bool { return false }

// Release does nothing.
func (allRights) Release() {}

// clusterRights are the rights of the client for the streams and bridges of the cluster.
type clusterRights struct{ allRights }

// AllowedReserved returns true for the states of bridges.
func (clusterRights) AllowedReserved(topic string) bool {
	return strings.HasPrefix(topic, "$SYS/broker/connection/")
}

// loginAllowed returns a refusal if log-ins from an address are refused without being
// checked.
func (b *Broker) loginAllowed(addr netip.Addr) error {
	if b.limits.LoginAllowed(addr) == nil {
		return nil
	}
	return &engine.Refusal{Reason: codeRateExceeded, Text: "too many failed log-ins from the address"}
}

// admit identifies the client: by its certificate if the listener uses certificates as
// users, else by username and password.
func (a authority) admit(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	account, admission, err := a.account(ctx, l)
	switch {
	case errors.Is(err, access.ErrWaits):
		return admission, engine.ErrWaits
	case errors.Is(err, access.ErrNotAuthorized):
		return admission, &engine.Refusal{Reason: codeNotAuthorized, Text: notAuthorised}
	case err != nil:
		return admission, err
	}
	if l.Socket.AdminOnly && !account.Allowed(dynsec.PublishSend, l.ClientID, dynsec.Topic) {
		account.Release()
		return admission, &engine.Refusal{Reason: codeNotAuthorized, Text: "the listener is for administrators"}
	}
	admission.Rights = &rights{Account: account, clientID: l.ClientID}
	return admission, nil
}

func (a authority) account(ctx context.Context, l *engine.Login) (*access.Account, engine.Admission, error) {
	control := a.b.control
	if name := l.Socket.Identity; name != "" {
		account, err := control.Identify(name, l.ClientID)
		return account, engine.Admission{Username: name}, err
	}
	if l.Username == "" {
		if !a.b.config.AllowAnonymous {
			return nil, engine.Admission{}, access.ErrNotAuthorized
		}
		return control.Anonymous(), engine.Admission{Anonymous: true}, nil
	}
	account, err := control.Authenticate(ctx, access.Credentials{
		Username: l.Username, HasUsername: l.HasUsername, Password: l.Password, HasPassword: l.HasPassword, ClientID: l.ClientID, AtOnce: l.AtOnce,
		Recheck: func() error { return a.b.loginAllowed(l.Socket.IP) }, WhileConnected: l.WhileConnected,
	})
	return account, engine.Admission{Username: l.Username}, err
}

// Resume returns the rights of a session whose client is not connected.
func (a authority) Resume(clientID, username string, anonymous bool) engine.Rights {
	switch {
	case anonymous:
		return &rights{Account: a.b.control.Anonymous(), clientID: clientID}
	case username == clusterUsername:
		return clusterRights{}
	}
	return &rights{Account: a.b.control.Resume(username), clientID: clientID}
}

// Epoch changes after every change of any rights.
func (a authority) Epoch() uint64 { return a.b.control.Epoch() }

// rights are those of an account under one client id.
type rights struct {
	*access.Account
	clientID string
}

var events = [...]dynsec.Event{
	engine.Send: dynsec.PublishSend, engine.Receive: dynsec.PublishReceive,
	engine.Subscribe: dynsec.Subscribe, engine.Unsubscribe: dynsec.Unsubscribe,
}

// Allowed reports whether the account allows an event on a topic now.
func (r *rights) Allowed(k engine.Kind, topic string) bool {
	return r.Account.Allowed(events[k], r.clientID, topic)
}
