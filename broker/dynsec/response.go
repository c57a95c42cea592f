package dynsec

import (
	"signalbox/broker"
)

// Response is the result of one command. A command whose Error, a text for people, is set
// changed nothing. The methods below return the data that a command requested.
type Response struct {
	Command         string
	Error           string
	CorrelationData *string

	data payload // nil where there is none
}

// payload is the member "data" of a response.
type payload interface {
	appendTo(b []byte) []byte
}

// listing is the data of the list commands: names or, if verbose, records.
type listing[T any] struct {
	of    *recordType[T]
	total int
	// records if verbose, otherwise names
	verbose bool
	names   []string
	records []T
}

// details is the data of getDetails.
type details struct {
	clients, groups, roles int
	index                  int64
}

// singleRecord is the data of the commands that get one record.
type singleRecord[T any] struct {
	of     *recordType[T]
	record T
}

// anonymousGroup is the data of getAnonymousGroup.
type anonymousGroup string

// defaultAccess is the data of getDefaultACLAccess.
type defaultAccess []broker.DefaultACL

// recordType is a type of record: its singular and plural in JSON, and its form.
type recordType[T any] struct {
	one, many string
	appendTo  func([]byte, T) []byte
	decode    func(*value) T
}

var (
	clientNoun = &recordType[broker.Client]{one: "client", many: "clients", appendTo: appendClient, decode: decodeClient}
	groupNoun  = &recordType[broker.Group]{one: "group", many: "groups", appendTo: appendGroup, decode: decodeGroup}
	roleNoun   = &recordType[broker.Role]{one: "role", many: "roles", appendTo: appendRole, decode: decodeRole}
)

// Err returns a response's error as a classified [*broker.Error], or nil.
func (a Response) Err() error {
	if a.Error == "" {
		return nil
	}
	return classify(a.Command, a.Error)
}

// Client returns the record in the response to getClient.
func (a Response) Client() (broker.Client, error) { return record[broker.Client](a) }

// Clients returns the response to listClients: the number of all clients and the
// requested page, with only the names set unless the command was verbose.
func (a Response) Clients() (total int, clients []broker.Client, err error) {
	return records(a, func(name string) broker.Client { return broker.Client{Username: name} })
}

// Groups returns the response to listGroups; see Clients.
func (a Response) Groups() (total int, groups []broker.Group, err error) {
	return records(a, func(name string) broker.Group { return broker.Group{GroupName: name} })
}

// Roles returns the response to listRoles; see Clients.
func (a Response) Roles() (total int, roles []broker.Role, err error) {
	return records(a, func(name string) broker.Role { return broker.Role{RoleName: name} })
}

// DefaultACLAccess returns the response to getDefaultACLAccess: all four, in order.
func (a Response) DefaultACLAccess() ([]broker.DefaultACL, error) {
	return data[defaultAccess](a)
}

// data returns a response's data of the expected type, or its error.
func data[P payload](a Response) (P, error) {
	var none P
	if err := a.Err(); err != nil {
		return none, err
	}
	p, ok := a.data.(P)
	if !ok {
		return none, &broker.Error{Kind: broker.Internal, Op: a.Command, Msg: "the broker's answer lacks the data"}
	}
	return p, nil
}

func record[T any](a Response) (T, error) {
	p, err := data[singleRecord[T]](a)
	return p.record, err
}

func records[T any](a Response, bare func(name string) T) (int, []T, error) {
	p, err := data[listing[T]](a)
	if err != nil || p.verbose {
		return p.total, p.records, err
	}
	l := make([]T, len(p.names))
	for i, name := range p.names {
		l[i] = bare(name)
	}
	return p.total, l, nil
}
