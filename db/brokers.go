package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// Broker is a stored broker connection. Rev starts at 1 and is raised by every
// update. Secrets are sealed by the caller, nil for none. Details holds further
// members of cloud and on-premise-setup records as one JSON value, nil for none.
type Broker struct {
	ID             string
	ProjectID      string
	Rev            int64
	Type           string // "cloud", "self-hosted" or "on-premise-setup"
	Name           string
	Description    string
	URL            string
	Username       string
	Secrets        []byte
	HasPassword    bool
	HasClientKey   bool
	VerifyCACert   bool
	MetricsEnabled bool
	TopicTree      bool // one may be made by subscribing to everything
	HA             bool
	ClusterMode    string // "", "full", "dynsec" or "hp", as it was said
	NodeOf         string // the mode of the stored cluster that it is a node of, "" for none; only read
	CACert         string // certificates are PEM
	CACertFile     string
	ClientCert     string
	ClientCertFile string
	ClientKeyFile  string
	Fingerprint    string // of the only certificate that the broker may present, "" for none
	Details        json.RawMessage
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

const brokerColumns = `b.id, b.project_id, b.rev, b.type, b.name, b.description, b.url, b.username,
	b.secrets, b.has_password, b.has_client_key, b.verify_ca_cert, b.metrics_enabled, b.topictree, b.ha,
	b.cluster_mode, b.ca_cert, b.ca_cert_file, b.client_cert, b.client_cert_file, b.client_key_file,
	b.server_fingerprint, b.details, b.created_at, b.updated_at, coalesce((
		SELECT c.sync_mode FROM cluster_nodes n JOIN clusters c ON c.id = n.cluster_id
		WHERE n.broker_id = b.id AND n.own = 0), '')`

func scanBroker(row scanner) (b Broker, err error) {
	var details sql.Null[string]
	err = row.Scan(&b.ID, &b.ProjectID, &b.Rev, &b.Type, &b.Name, &b.Description, &b.URL, &b.Username,
		&b.Secrets, &b.HasPassword, &b.HasClientKey, &b.VerifyCACert, &b.MetricsEnabled, &b.TopicTree, &b.HA,
		&b.ClusterMode, &b.CACert, &b.CACertFile, &b.ClientCert, &b.ClientCertFile, &b.ClientKeyFile,
		&b.Fingerprint, &details, (*millis)(&b.CreatedAt), (*millis)(&b.UpdatedAt), &b.NodeOf)
	if details.Valid {
		b.Details = json.RawMessage(details.V)
	}
	return b, err
}

// settings are the columns that an update replaces, in the order of both statements.
func (b Broker) settings() []any {
	return []any{b.Type, b.Name, b.Description, b.URL, b.Username,
		b.Secrets, b.HasPassword, b.HasClientKey, b.VerifyCACert, b.MetricsEnabled, b.TopicTree, b.HA,
		b.ClusterMode, b.CACert, b.CACertFile, b.ClientCert, b.ClientCertFile, b.ClientKeyFile, b.Fingerprint,
		sql.Null[string]{V: string(b.Details), Valid: b.Details != nil}, millis(b.UpdatedAt)}
}

// CreateBroker stores a broker connection with revision 1. ErrExists: the id is
// taken. ErrNotFound: no such project.
func (d *DB) CreateBroker(ctx context.Context, b Broker) error {
	return d.write(ctx, "create broker", func(tx *writeTx) error { return d.insertBroker(ctx, tx, b) })
}

func (d *DB) insertBroker(ctx context.Context, tx *writeTx, b Broker) (err error) {
	const q = `
		INSERT INTO brokers (id, project_id, rev, created_at, type, name, description, url, username,
			secrets, has_password, has_client_key, verify_ca_cert, metrics_enabled, topictree, ha,
			cluster_mode, ca_cert, ca_cert_file, client_cert, client_cert_file, client_key_file,
			server_fingerprint, details, updated_at)
		VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	if b.Secrets, err = d.current(ctx, tx, b.Secrets, b.ID); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, q, append([]any{b.ID, b.ProjectID, millis(b.CreatedAt)}, b.settings()...)...)
	return err
}

const getBrokerQuery = "SELECT " + brokerColumns + " FROM brokers b WHERE b.id = ? AND b.project_id = ?"

// GetBroker finds a broker connection of a project. ErrNotFound if there is none.
func (d *DB) GetBroker(ctx context.Context, projectID, id string) (Broker, error) {
	b, err := cached(d, brokerKey{projectID, id}, func() (Broker, error) {
		return scanBroker(pointRow(ctx, d.point.broker, id, projectID))
	})
	return b, wrap("get broker", err)
}

// ListBrokers lists the broker connections of a project, oldest first.
func (d *DB) ListBrokers(ctx context.Context, projectID string) ([]Broker, error) {
	const q = "SELECT " + brokerColumns + ` FROM brokers b
		WHERE b.project_id = ? ORDER BY b.created_at, b.id`
	all, err := collect(ctx, d.ro, scanBroker, q, projectID)
	return all, wrap("list brokers", err)
}

// AllBrokers lists the broker connections of all projects, oldest first.
func (d *DB) AllBrokers(ctx context.Context) ([]Broker, error) {
	const q = "SELECT " + brokerColumns + " FROM brokers b ORDER BY b.created_at, b.id"
	all, err := collect(ctx, d.ro, scanBroker, q)
	return all, wrap("list all brokers", err)
}

// UpdateBroker replaces all but id, project and CreatedAt of a broker connection,
// provided that it still has revision b.Rev, and raises the revision by one.
// ErrNotFound: no such broker in that project. ErrConflict: another revision.
func (d *DB) UpdateBroker(ctx context.Context, b Broker) error {
	const current = "SELECT rev FROM brokers WHERE id = ? AND project_id = ?"
	const q = `
		UPDATE brokers SET rev = rev + 1, type = ?, name = ?, description = ?, url = ?, username = ?,
			secrets = ?, has_password = ?, has_client_key = ?, verify_ca_cert = ?, metrics_enabled = ?, topictree = ?, ha = ?,
			cluster_mode = ?, ca_cert = ?, ca_cert_file = ?, client_cert = ?, client_cert_file = ?,
			client_key_file = ?, server_fingerprint = ?, details = ?, updated_at = ?
		WHERE id = ?`
	return d.write(ctx, "update broker", func(tx *writeTx) error {
		var rev int64
		if err := tx.QueryRowContext(ctx, current, b.ID, b.ProjectID).Scan(&rev); err != nil {
			return err
		}
		if rev != b.Rev {
			return ErrConflict
		}
		secrets, err := d.current(ctx, tx, b.Secrets, b.ID)
		if err != nil {
			return err
		}
		stored := b
		stored.Secrets = secrets
		_, err = tx.ExecContext(ctx, q, append(stored.settings(), b.ID)...)
		return err
	})
}

// DeleteBroker removes a broker connection, also from the lists of tokens. A
// restricted token that is left without brokers stays and opens none.
// ErrNotFound: no such broker in that project. ErrConflict: it is a node of a
// cluster, which is reached by this connection.
func (d *DB) DeleteBroker(ctx context.Context, projectID, id string) error {
	const (
		q     = "DELETE FROM brokers WHERE id = ? AND project_id = ?"
		nodes = `
			SELECT COUNT(*) FROM cluster_nodes
			JOIN brokers ON brokers.id = cluster_nodes.broker_id
			WHERE cluster_nodes.broker_id = ? AND cluster_nodes.own = 0 AND brokers.project_id = ?`
	)
	return d.write(ctx, "delete broker", func(tx *writeTx) error {
		var n int
		if err := tx.QueryRowContext(ctx, nodes, id, projectID).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return ErrConflict
		}
		return affected(tx.ExecContext(ctx, q, id, projectID))
	})
}
