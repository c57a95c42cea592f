package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"signalbox/broker"
)

// GetDefaultACLAccessRequest names a broker.
type GetDefaultACLAccessRequest struct{ BrokerPath }

// DefaultACLRecord is the default ACL: a list of the four entries.
type DefaultACLRecord struct {
	ACLs [][]broker.DefaultACL `json:"acls" doc:"One list, which holds the four default entries." example:"[[{\"acltype\":\"publishClientSend\",\"allow\":false},{\"acltype\":\"publishClientReceive\",\"allow\":true},{\"acltype\":\"subscribe\",\"allow\":false},{\"acltype\":\"unsubscribe\",\"allow\":true}]]"`
}

// GetDefaultACLAccess returns the access for events that no rule matches.
func (a *API) GetDefaultACLAccess(ctx context.Context, r *GetDefaultACLAccessRequest) (DefaultACLRecord, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return DefaultACLRecord{}, err
	}
	acls, err := b.GetDefaultACLAccess(ctx)
	return DefaultACLRecord{ACLs: [][]broker.DefaultACL{acls}}, err
}

// DefaultACLBody is the access to one kind of event.
type DefaultACLBody struct {
	ACLType string `json:"acltype" required:"true" enum:"publishClientSend|publishClientReceive|subscribe|unsubscribe" doc:"Type of access." example:"publishClientSend"`
	Allow   bool   `json:"allow" required:"true" doc:"True allows the access where no ACL of a role matches, false denies it." example:"false"`
}

// Validate refuses entries that contradict each other.
func (r *SetDefaultACLAccessRequest) Validate() []FieldError {
	var bad []FieldError
	first := map[string]int{}
	for i, acl := range r.Body {
		at, given := first[acl.ACLType]
		switch {
		case !given:
			first[acl.ACLType] = i
		case r.Body[at].Allow != acl.Allow:
			bad = append(bad, FieldError{fmt.Sprintf("body[%d].allow", i), fmt.Sprintf("contradicts body[%d]: give %s once", at, acl.ACLType)})
		}
	}
	return bad
}

// SetDefaultACLAccessRequest has one to four entries; the others stay unchanged.
type SetDefaultACLAccessRequest struct {
	BrokerPath
	Body []DefaultACLBody
}

// SetDefaultACLAccess changes the access for events that no rule matches.
func (a *API) SetDefaultACLAccess(ctx context.Context, r *SetDefaultACLAccessRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	acls := make([]broker.DefaultACL, 0, len(r.Body))
	for _, acl := range r.Body {
		acls = append(acls, broker.DefaultACL(acl))
	}
	return b.SetDefaultACLAccess(ctx, acls)
}

// ImportAccessRequest has a document in the format of Mosquitto's
// dynamic-security.json.
type ImportAccessRequest struct {
	BrokerPath
	Replace bool            `query:"replace" default:"false" doc:"True makes the broker hold exactly the document. False merges the document with the existing access control and refuses contradictions."`
	Body    json.RawMessage `object:"true" secret:"true"`
}

// ImportAccess imports a whole access-control configuration, password hashes included,
// completely or not at all.
func (a *API) ImportAccess(ctx context.Context, r *ImportAccessRequest) (broker.ImportReport, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return broker.ImportReport{}, err
	}
	return b.ImportAccess(ctx, bytes.NewReader(r.Body), r.Replace)
}

// ExportAccessRequest names a broker.
type ExportAccessRequest struct{ BrokerPath }

// ExportAccess returns the access-control configuration, password hashes included, as a
// document that Mosquitto reads.
func (a *API) ExportAccess(ctx context.Context, r *ExportAccessRequest) (Raw, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return Raw{}, err
	}
	document, err := b.ExportAccess(ctx)
	return Raw{ContentType: "application/json", Body: document}, err
}
