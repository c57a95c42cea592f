package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/db"
)

// embeddedDetails are the details of the record of an embedded broker.
type embeddedDetails struct {
	Billing
	// Node is the name of the copy of the database at whose node the broker is; "" in a database that was
	// never shared.
	Node string `json:"node,omitempty"`
	// First is set if the record existed before the nodes of a cluster shared the database: the
	// content was that of the broker's node.
	First bool `json:"first,omitempty"`
	// Membership is that of the node in the cluster that shares the database, by which the other nodes
	// reach the broker; "" until the node has stored it. A node that joins again has another one.
	Membership string `json:"membership,omitempty"`
}

// embeddedRecord is the record of the broker in this process.
type embeddedRecord struct {
	id, projectID string
	added         bool // it was created when the nodes of a cluster shared the records already
}

// ofEmbedded returns the details of the record of an embedded broker.
func ofEmbedded(row db.Broker) (d embeddedDetails, ok bool) {
	return d, isOnPremise(row) && json.Unmarshal(row.Details, &d) == nil
}

// onPremiseRow returns the record of an embedded broker.
func onPremiseRow(projectID, name, url string, now time.Time, d embeddedDetails) (db.Broker, error) {
	d.Billing = Billing{ProductID: "signalbox", PeriodStart: now.UTC().Format(time.RFC3339)}
	details, err := json.Marshal(d)
	return db.Broker{ID: newID(), ProjectID: projectID, Rev: 1, Type: typeOnPremise, Name: name, URL: url,
		VerifyCACert: true, MetricsEnabled: true, TopicTree: true, Details: details, CreatedAt: now, UpdatedAt: now}, err
}

// isOnPremise reports whether a record is that of an embedded broker.
func isOnPremise(row db.Broker) bool { return row.Type == typeOnPremise }

// Embedded returns the id of the record of the broker in this process, "" if that is disabled or has
// none yet.
func (c *Connections) Embedded() string { return c.embedded().id }

func (c *Connections) embedded() embeddedRecord {
	if r := c.ownRecord.Load(); r != nil {
		return *r
	}
	return embeddedRecord{}
}

// NodeID returns what distinguishes this node, in the client ids with which streams and bridges connect to brokers, from
// others with the same connections. Those that share them have the same, as one takes over the sessions of another.
func (c *Connections) NodeID() string { return c.DB.ClientSuffix() }

// AdoptEmbedded adds the broker in this process to the pool under its record, which it
// creates in the default project if there is none yet. url is the address for clients. If
// the nodes of a cluster share the records, FollowData stores what is to be stored.
func (a *API) AdoptEmbedded(ctx context.Context, b broker.Broker, url string) error {
	a.inProcess, a.inProcessURL = b, url
	if !a.DB.IsShared() {
		return a.storeEmbedded(ctx)
	}
	row, found, err := a.findEmbedded(ctx)
	if found {
		a.useEmbedded(row)
	}
	return err
}

// storeEmbedded is AdoptEmbedded for a database that can be written to. The URL of a record with
// credentials is that by which other nodes reach the broker.
func (a *API) storeEmbedded(ctx context.Context) error {
	row, found, err := a.findEmbedded(ctx)
	if err == nil && !found {
		row, err = a.createEmbedded(ctx)
	}
	if err != nil {
		return err
	}
	a.useEmbedded(row)
	d, _ := ofEmbedded(row)
	before := d.Membership
	if d.Membership, err = a.membership(before); err != nil {
		return err
	}
	moved := row.URL != a.inProcessURL && row.Username == ""
	if d.Membership == before && !moved {
		return nil
	}
	if moved {
		row.URL = a.inProcessURL
	}
	if row.Details, err = json.Marshal(d); err != nil {
		return err
	}
	row.UpdatedAt = a.Now()
	return a.DB.UpdateBroker(ctx, row)
}

// membership returns the membership of this node in the cluster that shares the database; in a database
// that is not shared, what it was before.
func (a *API) membership(before string) (string, error) {
	if !a.DB.IsShared() {
		return before, nil
	}
	if b, ok := a.inProcess.(interface{ Membership() string }); ok {
		if m := b.Membership(); m != "" {
			return m, nil
		}
	}
	return "", errNoNumber
}

// findEmbedded returns the record of the broker in this process. A record without a node is that of
// the only one.
func (a *API) findEmbedded(ctx context.Context) (row db.Broker, found bool, err error) {
	rows, err := a.DB.AllBrokers(ctx)
	for _, node := range []string{a.DB.Origin(), ""} {
		i := slices.IndexFunc(rows, func(row db.Broker) bool {
			d, ok := ofEmbedded(row)
			return ok && d.Node == node
		})
		if i >= 0 {
			return rows[i], true, err
		}
	}
	return row, false, err
}

// createEmbedded stores a record. In a database that is shared its name has that of the node.
func (a *API) createEmbedded(ctx context.Context) (row db.Broker, err error) {
	projectID, err := a.embeddedHome(ctx)
	if err != nil {
		return row, err
	}
	name, d := EmbeddedName, embeddedDetails{}
	if a.DB.IsShared() {
		number := 0
		if b, ok := a.inProcess.(interface{ NodeNumber() int }); ok {
			number = b.NodeNumber()
		}
		if number == 0 {
			return row, errNoNumber
		}
		name, d.Node = fmt.Sprintf("%s (node %d)", EmbeddedName, number), a.DB.Origin()
	}
	if row, err = onPremiseRow(projectID, name, a.inProcessURL, a.Now(), d); err != nil {
		return row, err
	}
	return row, a.DB.CreateBroker(ctx, row)
}

// errNoNumber is why a node cannot store its record yet.
var errNoNumber = &broker.Error{Kind: broker.Unavailable, Op: "adopt", Msg: "the node does not take part in its cluster yet"}

// useEmbedded has the broker in this process used under a record.
func (a *API) useEmbedded(row db.Broker) {
	d, _ := ofEmbedded(row)
	former := a.ownRecord.Swap(&embeddedRecord{row.ID, row.ProjectID, d.Node != "" && !d.First})
	a.Brokers.Pin(row.ID, a.inProcess)
	if former != nil && former.id != row.ID {
		a.Brokers.Unpin(former.id)
	}
}

// LabelEmbedded stores, before the nodes of a cluster share a database, at which node its embedded
// broker is.
func LabelEmbedded(ctx context.Context, d *db.DB) error {
	rows, err := d.AllBrokers(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		known, ok := ofEmbedded(row)
		if !ok || known.Node != "" {
			continue
		}
		known.Node, known.First = d.Origin(), true
		if row.Details, err = json.Marshal(known); err != nil {
			return err
		}
		if err := d.UpdateBroker(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// overCluster returns the membership of the node whose embedded broker is reached over the cluster port:
// that of a record without credentials. It is "" for other records.
func overCluster(row db.Broker) string {
	if d, ok := ofEmbedded(row); ok && row.Username == "" {
		return d.Membership
	}
	return ""
}

// checkEmbedded returns why the broker of a record, which is not the one in this process, cannot be
// connected to, nil if that can be tried: as that of another node of a cluster, with the credentials in
// its record or, without any, over the cluster port.
func (c *Connections) checkEmbedded(row db.Broker) error {
	d, ok := ofEmbedded(row)
	switch {
	case !ok:
		return nil
	case d.Node == "" || d.Node == c.DB.Origin():
		return &broker.Error{Kind: broker.Unavailable, Op: "connect",
			Msg: "the embedded broker is switched off; set broker.enabled to true and start signalbox again"}
	case row.Username == "" && overCluster(row) == "":
		return &broker.Error{Kind: broker.Unavailable, Op: "connect",
			Msg: "this is the embedded broker of another node, which has not stored yet how the other nodes of its cluster reach it: start that node with the release of this one, or store the url, username and password of the broker"}
	}
	return nil
}

// embeddedHome returns the project for the embedded broker: an administrator's project
// with the default name, created again if it was deleted. A project of another user
// with this name does not count.
func (a *API) embeddedHome(ctx context.Context) (projectID string, err error) {
	_, roots, err := a.DB.ListRoots(ctx, 0, math.MaxInt32)
	if err != nil {
		return "", err
	}
	projects, err := a.DB.AllProjects(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range projects {
		owns := func(u db.User) bool { return u.ID == p.OwnerID }
		if p.Name == defaultProject && slices.ContainsFunc(roots, owns) {
			return p.ID, nil
		}
	}
	now := a.Now()
	p := db.Project{ID: newID(), Name: defaultProject, OwnerID: roots[0].ID, CreatedAt: now, UpdatedAt: now}
	return p.ID, a.DB.CreateProject(ctx, p)
}
