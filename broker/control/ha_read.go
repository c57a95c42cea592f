package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"signalbox/broker"
)

// Invitation is what a node needs to join a cluster: an object of the node that created
// it (certificates and the key that belongs to them), which is passed on unchanged,
// with the number of the node. It prints without its secrets.
type Invitation struct {
	NodeID   int
	document json.RawMessage
}

// NewInvitation returns an invitation with a value that encodes to a JSON object.
func NewInvitation(nodeid int, document any) (Invitation, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return Invitation{}, fmt.Errorf("write an invitation: %w", err)
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Invitation{}, errors.New("write an invitation: not an object")
	}
	m["nodeid"] = encode(nodeid)
	return Invitation{nodeid, encode(m)}, nil
}

// Open decodes the value of the invitation. Its error contains nothing of it.
func (i Invitation) Open(document any) error {
	if json.Unmarshal(i.document, document) != nil {
		return ErrInvitation
	}
	return nil
}

// MarshalJSON encodes the invitation with its secrets, for the node that joins.
func (i Invitation) MarshalJSON() ([]byte, error) {
	if i.document == nil {
		return []byte("null"), nil
	}
	return i.document, nil
}

// UnmarshalJSON decodes an object with a nodeid.
func (i *Invitation) UnmarshalJSON(b []byte) error {
	var known struct {
		NodeID int `json:"nodeid"`
	}
	if !bytes.HasPrefix(b, []byte("{")) || json.Unmarshal(b, &known) != nil || known.NodeID < 1 {
		return ErrInvitation
	}
	i.NodeID, i.document = known.NodeID, bytes.Clone(b)
	return nil
}

// Format prints the invitation without its secrets, whatever the verb.
func (i Invitation) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "invitation of node %d", i.NodeID) }

// LogValue logs the invitation without its secrets.
func (i Invitation) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(i)) }

// HAStatus is the decoded response to getRaftStatus. Its list is never nil.
type HAStatus struct{ broker.RaftStatus }

// UnmarshalJSON decodes the record.
func (s *HAStatus) UnmarshalJSON(b []byte) error {
	if err := decodeTolerant(b, &s.RaftStatus); err != nil {
		return err
	}
	if s.Nodes == nil {
		s.Nodes = []broker.RaftNode{}
	}
	return nil
}

// UnmarshalJSON decodes the invitations and ignores invalid ones.
func (c *HACreated) UnmarshalJSON(b []byte) error {
	var r struct {
		Invitations []json.RawMessage `json:"invitations"`
		Info        string            `json:"info"`
	}
	if err := decodeTolerant(b, &r); err != nil {
		return err
	}
	c.Info = r.Info
	for _, raw := range r.Invitations {
		var i Invitation
		if i.UnmarshalJSON(raw) == nil {
			c.Invitations = append(c.Invitations, i)
		}
	}
	return nil
}

// UnmarshalJSON accepts the record itself, and one in the member cluster or ha.
func (c *HACluster) UnmarshalJSON(b []byte) error {
	var inner struct{ Cluster, HA json.RawMessage }
	if err := decodeTolerant(b, &inner); err != nil {
		return err
	}
	for _, raw := range []json.RawMessage{inner.Cluster, inner.HA} {
		if bytes.HasPrefix(raw, []byte("{")) {
			b = raw
		}
	}
	type record HACluster
	return decodeTolerant(b, (*record)(c))
}

// UnmarshalJSON accepts the member leader as well.
func (l *haLeader) UnmarshalJSON(b []byte) error {
	var r struct{ IsLeader, Leader bool }
	err := decodeTolerant(b, &r)
	l.IsLeader = r.IsLeader || r.Leader
	return err
}

// dispensable is implemented by data that a response may lack: the command was executed
// whether or not it can be decoded.
type dispensable interface{ dispensable() }

func (*HACreated) dispensable() {}
func (*HAAdded) dispensable()   {}

// ReadHA decodes the response to a command of [HATopic] in a message, as [Read] does. The
// error is a [*broker.Error]: that of [Refusal.ClassifyHA] if the response is a refusal,
// otherwise one of kind Internal.
func ReadHA(c HACommand, payload []byte, correlation string, into any) error {
	err := Read(payload, correlation, nil)
	if refusal, ok := errors.AsType[Refusal](err); ok {
		return refusal.ClassifyHA(c.name)
	}
	if err == nil && into != nil {
		err = Read(payload, correlation, into)
		if _, ok := into.(dispensable); ok {
			return nil
		}
	}
	if err != nil {
		return &broker.Error{Kind: broker.Internal, Op: c.name, Msg: "the broker's answer cannot be understood", Err: err}
	}
	return nil
}

// storeHA stores the data of a command that was executed in this process, as ReadHA would
// decode it. Into nil it stores nothing.
func storeHA(into, data any) {
	switch into := into.(type) {
	case *HACreated:
		*into = data.(HACreated)
	case *HAAdded:
		*into = data.(HAAdded)
	case *HACluster:
		*into = data.(HACluster)
	case *haLeader:
		*into = data.(haLeader)
	case *HAStatus:
		into.RaftStatus = data.(broker.RaftStatus)
	}
}
