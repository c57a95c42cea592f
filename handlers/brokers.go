package handlers

import (
	"context"
	"errors"
	"time"

	"signalbox/broker"
	"signalbox/db"
	"signalbox/handlers/auth"
)

// BrokerRecord is a broker of a project: the project's settings of it, and how it is
// reached. It never contains passwords and keys.
type BrokerRecord struct {
	ServiceBase
	*Billing
	*CloudDetails
	URL            string              `json:"url" doc:"URL with which the service connects. That of the embedded broker is its first listener." example:"mqtts://broker.example:8883"`
	Description    string              `json:"description" doc:"Description; may be empty." example:"Broker of hall 3"`
	Username       *string             `json:"username" doc:"Username with which the service connects; null for none." example:"signalbox"`
	VerifyCACert   bool                `json:"verify_ca_cert" doc:"True if the certificate of the broker is verified." example:"true"`
	MetricsEnabled bool                `json:"metricsEnabled" doc:"Whether metrics of the broker are enabled." example:"true"`
	TopicTree      bool                `json:"topictree" doc:"False if the service never subscribes to all topics of the broker to build its topic tree." example:"true"`
	ClusterMode    *string             `json:"clustermode" enum:"full|dynsec|hp" doc:"Mode of the cluster that the broker is a node of; null for none." example:"null"`
	CACert         *string             `json:"ca_cert" doc:"Certificate authorities with which the broker is verified, as PEM; null for those of the system." example:"null"`
	Fingerprint    *string             `json:"server_fingerprint" doc:"SHA-256 fingerprint of the only certificate that the broker may present; null for none." example:"null"`
	ClientCert     *string             `json:"client_cert" doc:"Client certificate and its chain, as PEM; null for none." example:"null"`
	HasPassword    bool                `json:"hasPassword" doc:"True if a password is stored. It is never returned." example:"true"`
	HasClientKey   bool                `json:"hasClientKey" doc:"True if a client key is stored. It is never returned." example:"false"`
	Status         BrokerState         `json:"status" doc:"State of the connection."`
	Capabilities   []broker.Capability `json:"capabilities" doc:"Features of the broker, as far as known now." example:"dynamic-security|inspect|streams|topic-tree|ttl|listeners|bridges"`
}

// BrokerState reports whether a broker is reached, since when (epoch milliseconds) and,
// if not, why; and what it does not support, once it was reached.
type BrokerState struct {
	Connected bool             `json:"connected" doc:"True if the broker is connected." example:"true"`
	Since     int64            `json:"since" format:"epoch-ms" doc:"Time of the last change of connected, in epoch milliseconds." example:"1769860800000"`
	Error     string           `json:"error,omitempty" doc:"Why the broker is not connected, as a sentence. Absent if there is no error." example:"-"`
	Version   string           `json:"version,omitempty" doc:"What the broker reports as its version in $SYS/broker/version. Absent if it is not known." example:"mosquitto version 2.0.18"`
	Missing   []broker.Missing `json:"missing" doc:"Features that the broker does not have, once it was connected."`
}

// record returns the current record of a broker.
func (a *API) record(row db.Broker) (BrokerRecord, error) {
	billing, cloud, err := details(row)
	if err != nil {
		return BrokerRecord{}, err
	}
	r := BrokerRecord{ServiceBase: a.serviceBase(row), Billing: billing, CloudDetails: cloud, URL: row.URL,
		Description: row.Description, Username: orNull(row.Username), VerifyCACert: row.VerifyCACert,
		MetricsEnabled: row.MetricsEnabled, TopicTree: row.TopicTree, CACert: orNull(row.CACert), ClientCert: orNull(row.ClientCert), Fingerprint: orNull(row.Fingerprint),
		HasPassword: row.HasPassword, HasClientKey: row.HasClientKey, Capabilities: []broker.Capability{}}
	if mode := a.modeOf(row); mode != "" {
		r.ClusterMode = &mode
	}
	b, err := a.connect(row)
	if err != nil {
		r.Status = BrokerState{Since: epoch(row.UpdatedAt), Error: ErrorFor(err).Message, Missing: []broker.Missing{}}
		return r, nil
	}
	s := b.Status()
	r.Status = BrokerState{Connected: s.Connected, Since: epoch(s.Since), Error: s.Error, Version: s.Version, Missing: append([]broker.Missing{}, s.Missing...)}
	r.Capabilities = append(r.Capabilities, b.Capabilities()...)
	return r, nil
}

// orNull returns nil for an empty text, which is shown as null; an update takes null
// for "none".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// modeOf returns the mode of the cluster that a broker is a node of: from the broker in
// this process, from the project or, for a cluster that was created elsewhere, as
// stored with the connection; "" for none.
func (a *API) modeOf(row db.Broker) string {
	if mode := a.nodeOf(row); mode != "" {
		return mode
	}
	return row.ClusterMode
}

// nodeOf is modeOf without the mode that is stored with the connection.
func (a *API) nodeOf(row db.Broker) string {
	if row.ID == a.Embedded() {
		b, ok := a.Brokers.Live(row.ID, row.Rev).(interface{ ClusterMode() (string, bool) })
		if ok {
			if mode, known := b.ClusterMode(); known {
				return mode
			}
		}
	}
	return row.NodeOf
}

// ListBrokersRequest names a project.
type ListBrokersRequest struct{ ProjectPath }

// ListBrokers lists the brokers of a project that the caller may use.
func (a *API) ListBrokers(ctx context.Context, r *ListBrokersRequest) (List[BrokerRecord], error) {
	rows, err := a.visibleBrokers(ctx, r.ProjectID)
	if err != nil {
		return List[BrokerRecord]{}, err
	}
	records := make([]BrokerRecord, 0, len(rows))
	for _, row := range rows {
		record, err := a.record(row)
		if err != nil {
			return List[BrokerRecord]{}, err
		}
		records = append(records, record)
	}
	return listOf(records), nil
}

// visibleBrokers returns the brokers of a project except those that a restricted token
// may not use.
func (a *API) visibleBrokers(ctx context.Context, projectID string) ([]db.Broker, error) {
	rows, err := a.DB.ListBrokers(ctx, projectID)
	caller := auth.From(ctx)
	visible := rows[:0]
	for _, row := range rows {
		if caller.BrokerAllowed(row.ID) {
			visible = append(visible, row)
		}
	}
	return visible, err
}

// NewConnectionBody describes a connection that is not stored yet.
type NewConnectionBody struct {
	Name string `json:"name" required:"true" minlen:"1" doc:"Name of the connection." example:"Hall 3"`
	URL  string `json:"url" required:"true" minlen:"1" doc:"URL of the broker: mqtt://, mqtts://, tcp://, ssl://, ws:// or wss:// with host and port, without credentials." example:"mqtts://broker.example:8883"`
	ConnectionBody
}

func (b NewConnectionBody) check(certDir string) []FieldError {
	return append(checkURL(b.URL), b.ConnectionBody.check(certDir)...)
}

// newRow returns the record of a connection that is not stored yet.
func (a *API) newRow(projectID string, b NewConnectionBody) (db.Broker, error) {
	now := a.Now()
	row := db.Broker{ID: newID(), ProjectID: projectID, Rev: 1, Type: typeSelfHosted, Name: b.Name,
		URL: b.URL, VerifyCACert: true, MetricsEnabled: true, TopicTree: true, CreatedAt: now, UpdatedAt: now}
	if err := a.merge(&row, b.ConnectionBody); err != nil {
		return row, err
	}
	return row, a.checkTLS(row)
}

// CreateBrokerRequest describes a new connection.
type CreateBrokerRequest struct {
	ProjectPath
	Body NewConnectionBody
}

// CreateBroker stores a connection to a broker and connects in the background.
func (a *API) CreateBroker(ctx context.Context, r *CreateBrokerRequest) (Identifier, error) {
	if bad := r.Body.check(a.CertDir); bad != nil {
		return Identifier{}, Invalid(bad...)
	}
	row, err := a.newRow(r.ProjectID, r.Body)
	if err != nil {
		return Identifier{}, err
	}
	noteCreated(ctx, row.ID, "", row.ID)
	if err := a.DB.CreateBroker(ctx, row); err != nil {
		return Identifier{}, err
	}
	a.connectInBackground(row)
	return Identifier{ID: row.ID}, nil
}

// GetBrokerRequest names a broker.
type GetBrokerRequest struct{ BrokerPath }

// GetBroker returns a broker's record.
func (a *API) GetBroker(_ context.Context, r *GetBrokerRequest) (BrokerRecord, error) {
	return a.record(r.row)
}

// UpdateBrokerRequest has the changes of a connection.
type UpdateBrokerRequest struct {
	BrokerPath
	Body struct {
		Name Opt[string] `json:"name" minlen:"1" doc:"Name of the connection; absent leaves it unchanged." example:"Hall 3"`
		URL  Opt[string] `json:"url" minlen:"1" doc:"URL of the broker, as in createBroker; absent leaves it unchanged." example:"mqtts://broker.example:8883"`
		ConnectionBody
	}
}

// UpdateBroker changes the given members of a connection and reconnects; null clears. A
// stored secret is not sent to a changed address.
func (a *API) UpdateBroker(ctx context.Context, r *UpdateBrokerRequest) error {
	if r.BrokerID == a.Embedded() && !a.DB.IsShared() { // else other nodes may use an address and credentials
		return conflict("the embedded broker's connection is managed by signalbox itself")
	}
	bad := r.Body.check(a.CertDir)
	if r.Body.URL.Set {
		bad = append(bad, checkURL(r.Body.URL.Value)...)
	}
	if bad != nil {
		return Invalid(bad...)
	}
	row := r.row
	if row.NodeOf != "" { // known, and possibly what was read
		r.Body.HA, r.Body.ClusterMode = Opt[bool]{}, Opt[string]{}
	}
	r.Body.Name.merge(&row.Name)
	r.Body.URL.merge(&row.URL)
	row.UpdatedAt = a.Now()
	if err := a.merge(&row, r.Body.ConnectionBody); err != nil {
		return err
	}
	if bad := movedSecrets(r.row, row, r.Body.ConnectionBody); bad != nil {
		return Invalid(bad...)
	}
	if err := a.checkTLS(row); err != nil {
		return err
	}
	if err := a.DB.UpdateBroker(ctx, row); err != nil {
		return err
	}
	row.Rev++
	a.connectInBackground(row)
	return nil
}

// DeleteBrokerRequest names a broker.
type DeleteBrokerRequest struct{ BrokerPath }

// DeleteBroker deletes a connection; the broker itself is not affected.
func (a *API) DeleteBroker(ctx context.Context, r *DeleteBrokerRequest) error {
	if r.BrokerID == a.Embedded() {
		return conflict("the embedded broker cannot be deleted while it is switched on (broker.enabled)")
	}
	err := a.DB.DeleteBroker(ctx, r.ProjectID, r.BrokerID)
	switch {
	case errors.Is(err, db.ErrConflict):
		return conflict("the broker is a node of a cluster, which is reached by this connection: let the node leave the cluster, or delete the cluster, first")
	case err != nil:
		return err
	}
	a.drop(ctx, r.BrokerID)
	return nil
}

// TestBrokerRequest describes a connection to test.
type TestBrokerRequest struct {
	ProjectPath
	Body NewConnectionBody
}

// BrokerTrial is the result of a test: the capabilities and what is missing, or why
// not.
type BrokerTrial struct {
	Connected    bool                `json:"connected" doc:"True if the connection was made." example:"true"`
	Error        string              `json:"error,omitempty" doc:"Why the connection failed, as a sentence. Absent if it was made." example:"-"`
	Capabilities []broker.Capability `json:"capabilities" doc:"Features of the broker." example:"dynamic-security|streams|topic-tree|ttl|bridges"`
	Missing      []broker.Missing    `json:"missing" doc:"Features that the broker does not have."`
	broker.Diagnosis
}

// trialTime bounds the time of a test.
const trialTime = 20 * time.Second

// TestBroker tests a connection without storing it.
func (a *API) TestBroker(ctx context.Context, r *TestBrokerRequest) (BrokerTrial, error) {
	if bad := r.Body.check(a.CertDir); bad != nil {
		return BrokerTrial{}, Invalid(bad...)
	}
	row, err := a.newRow(r.ProjectID, r.Body)
	if err != nil {
		return BrokerTrial{}, err
	}
	return a.Try(ctx, row)
}

// Try tests the connection of a record: a failed attempt is a result, not an error.
func (c *Connections) Try(ctx context.Context, row db.Broker) (BrokerTrial, error) {
	target, err := c.target(row)
	if err != nil {
		return BrokerTrial{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	trial, err := c.Brokers.Try(ctx, target)
	if err != nil {
		return BrokerTrial{Error: ErrorFor(err).Message, Capabilities: []broker.Capability{}, Missing: []broker.Missing{}, Diagnosis: trial.Diagnosis}, nil
	}
	return BrokerTrial{Connected: true, Capabilities: trial.Capabilities, Missing: append([]broker.Missing{}, trial.Missing...), Diagnosis: trial.Diagnosis}, nil
}
