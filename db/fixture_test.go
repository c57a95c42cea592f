package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// at is n milliseconds after an arbitrary moment.
func at(n int64) time.Time { return time.UnixMilli(1_700_000_000_000 + n).UTC() }

func user(id string) db.User {
	return db.User{ID: id, Email: id + "@example.org", FirstName: "First", LastName: id,
		PasswordHash: "hash of " + id, Verified: true, CreatedAt: at(1), UpdatedAt: at(2)}
}

func project(id, owner string) db.Project {
	return db.Project{ID: id, Name: "name of " + id, Description: "about " + id,
		OwnerID: owner, OrganizationID: "org", CreatedAt: at(3), UpdatedAt: at(4)}
}

func connection(id, project string) db.Broker {
	return db.Broker{ID: id, ProjectID: project, Type: "self-hosted", Name: "name of " + id, Description: "about " + id,
		URL: "mqtts://broker.example.org:8883", Username: "admin", Secrets: []byte{0, 1, 0xff},
		HasPassword: true, HasClientKey: true, VerifyCACert: true, MetricsEnabled: true, TopicTree: true, HA: true, ClusterMode: "hp",
		CACert: "ca", CACertFile: "ca.pem", ClientCert: "cert", ClientCertFile: "cert.pem", ClientKeyFile: "key.pem",
		Details: []byte(`{"zone_name":"z"}`), CreatedAt: at(5), UpdatedAt: at(6)}
}

func token(id, project string, brokers ...string) db.Token {
	t := db.Token{ID: id, ProjectID: project, OwnerID: "owner", OwnerRole: "admin", Issuer: "issuer", Name: "name of " + id, Hash: "hash of " + id,
		Role: "viewer", Type: "unrestricted", Brokers: []string{}, IssuedAt: at(7), ValidUntil: at(1 << 40)}
	if len(brokers) > 0 {
		t.Type, t.Brokers = "restricted", brokers
	}
	return t
}

// world is a database with users owner and guest, projects p and q of owner, and
// broker b in p.
func world(t testing.TB) *db.DB {
	t.Helper()
	d := dbtest.New(t)
	populate(t, d)
	return d
}

func populate(t testing.TB, d *db.DB) {
	t.Helper()
	ctx := t.Context()
	must(t,
		d.CreateUser(ctx, user("owner")),
		d.CreateUser(ctx, user("guest")),
		d.CreateProject(ctx, project("p", "owner")),
		d.CreateProject(ctx, project("q", "owner")),
		d.CreateBroker(ctx, connection("b", "p")),
	)
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// wantErr fails the test unless got is the sentinel want, or nil where want is.
func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func wantEqual(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got other than wanted (-want +got):\n%s", diff)
	}
}

func ptr[T any](v T) *T { return &v }
