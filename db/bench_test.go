package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// The reads that nearly every request begins with, one after the other and with
// a context that can end, as a request's does.
func BenchmarkPointReads(b *testing.B) {
	d := dbtest.New(b)
	seed(b, d, 10_000)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	reads := map[string]func(i int) error{
		"token":  func(i int) error { _, err := d.TokenByHash(ctx, fmt.Sprintf("hash-%d", i)); return err },
		"role":   func(int) error { _, err := d.RoleOf(ctx, "p", "u"); return err },
		"broker": func(int) error { _, err := d.GetBroker(ctx, "p", "b"); return err },
	}
	for name, read := range reads {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if err := read(i % 10_000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Writes of a database that is not shared: one row, several with checks between, and with a row of
// the audit log. Most of the time is that of the disk.
func BenchmarkWrites(b *testing.B) {
	d := dbtest.New(b)
	seed(b, d, 1)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	rev := int64(0)
	used := time.UnixMilli(1_700_000_000_000)
	update := func(ctx context.Context) error {
		rev++
		return d.UpdateBroker(ctx, db.Broker{ID: "b", ProjectID: "p", Type: "self-hosted", Rev: rev})
	}
	writes := map[string]func() error{
		"touch": func() error {
			used = used.Add(time.Millisecond)
			return d.TouchTokens(ctx, map[string]time.Time{"t-0": used})
		},
		"update": func() error { return update(ctx) },
		"audited": func() error {
			audited, _ := db.WithAudit(ctx, db.AuditEvent{Time: used, Operation: "updateBroker"})
			return update(audited)
		},
		"row": func() error { return d.AddAudit(ctx, db.AuditEvent{Time: used, Operation: "updateBroker"}) },
	}
	for name, write := range writes {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func seed(tb testing.TB, d *db.DB, tokens int) {
	tb.Helper()
	ctx := tb.Context()
	at := time.UnixMilli(1_700_000_000_000)
	for _, err := range []error{
		d.CreateUser(ctx, db.User{ID: "u", Email: "u@example.org", CreatedAt: at}),
		d.CreateProject(ctx, db.Project{ID: "p", OwnerID: "u", CreatedAt: at}),
		d.CreateBroker(ctx, db.Broker{ID: "b", ProjectID: "p", Type: "self-hosted", CreatedAt: at}),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	for i := range tokens {
		t := db.Token{ID: fmt.Sprintf("t-%d", i), ProjectID: "p", OwnerID: "u", Hash: fmt.Sprintf("hash-%d", i), Role: "viewer", Type: "unrestricted", IssuedAt: at}
		if err := d.CreateToken(ctx, t); err != nil {
			tb.Fatal(err)
		}
	}
}
