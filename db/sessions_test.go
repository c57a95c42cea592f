package db_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/db"
)

func session(hash, userID string) db.Session {
	return db.Session{Hash: hash, UserID: userID, CreatedAt: at(10), ExpiresAt: at(100), Address: "192.0.2.7", UserAgent: "curl/8.14"}
}

func TestSessionUser(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	want := session("s", "guest")
	must(t, d.CreateSession(ctx, want))
	wantErr(t, d.CreateSession(ctx, want), db.ErrExists)
	wantErr(t, d.CreateSession(ctx, session("x", "nobody")), db.ErrNotFound)

	s, u, err := d.SessionUser(ctx, "s", at(99))
	wantErr(t, err, nil)
	wantEqual(t, s, want)
	wantEqual(t, u, user("guest"))
	_, _, err = d.SessionUser(ctx, "s", at(100))
	wantErr(t, err, db.ErrNotFound)
	_, _, err = d.SessionUser(ctx, "unknown", at(99))
	wantErr(t, err, db.ErrNotFound)
}

func TestSessionsOf(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	older, newer, expired := session("b", "guest"), session("a", "guest"), session("c", "guest")
	older.CreatedAt, expired.ExpiresAt = at(5), at(50)
	newer.UserAgent = strings.Repeat("x", 511) + "ü" + strings.Repeat("y", 9)
	must(t, d.CreateSession(ctx, older), d.CreateSession(ctx, newer), d.CreateSession(ctx, expired), d.CreateSession(ctx, session("o", "owner")))
	newer.UserAgent = strings.Repeat("x", 511) + "\ufffd" // a character was cut
	got, err := d.SessionsOf(ctx, "guest", at(50))
	wantErr(t, err, nil)
	wantEqual(t, got, []db.Session{newer, older})
	got, err = d.SessionsOf(ctx, "nobody", at(50))
	wantErr(t, err, nil)
	wantEqual(t, got, []db.Session{})
}

// TestSessionsAreBounded creates more sessions of a user than one may have: the oldest ones end, but
// never the new one, and those of other users stay.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateSession(ctx, session("o", "owner")))
	var want []db.Session
	for i := range db.MaxSessions + 3 {
		s := session(fmt.Sprintf("%03d", i), "guest")
		s.CreatedAt, s.ExpiresAt = at(int64(10+i)), at(10_000)
		must(t, d.CreateSession(ctx, s))
		want = append([]db.Session{s}, want...)
	}
	got, err := d.SessionsOf(ctx, "guest", at(1000))
	wantErr(t, err, nil)
	wantEqual(t, got, want[:db.MaxSessions])
	late := session("late", "guest") // begun before all others, by a clock that was set back
	late.CreatedAt = at(1)
	must(t, d.CreateSession(ctx, late))
	got, err = d.SessionsOf(ctx, "guest", at(50))
	wantErr(t, err, nil)
	wantEqual(t, got, append(want[:db.MaxSessions-1:db.MaxSessions-1], late))
	_, _, err = d.SessionUser(ctx, "o", at(50))
	wantErr(t, err, nil)
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(d *db.DB, t *testing.T) error
		left []string
	}{
		{"nothing happens", func(*db.DB, *testing.T) error { return nil }, []string{"g1", "g2", "o1"}},
		{"log-out", func(d *db.DB, t *testing.T) error { return d.DeleteSession(t.Context(), "g1") }, []string{"g2", "o1"}},
		{"log-out twice", func(d *db.DB, t *testing.T) error { return d.DeleteSession(t.Context(), "gone") }, []string{"g1", "g2", "o1"}},
		{"own password change keeps one", func(d *db.DB, t *testing.T) error {
			return d.SetPassword(t.Context(), "guest", "new", "g2", at(20))
		}, []string{"g2", "o1"}},
		{"password set by another", func(d *db.DB, t *testing.T) error {
			return d.UpdateUser(t.Context(), db.UserUpdate{ID: "guest", PasswordHash: ptr("new")})
		}, []string{"o1"}},
		{"verification taken away", func(d *db.DB, t *testing.T) error {
			return d.UpdateUser(t.Context(), db.UserUpdate{ID: "guest", Verified: ptr(false)})
		}, []string{"o1"}},
		{"ended by another", func(d *db.DB, t *testing.T) error { return d.DeleteSessionsOf(t.Context(), "guest", "") }, []string{"o1"}},
		{"the others are ended", func(d *db.DB, t *testing.T) error { return d.DeleteSessionsOf(t.Context(), "guest", "g1") }, []string{"g1", "o1"}},
		{"another name", func(d *db.DB, t *testing.T) error {
			return d.UpdateUser(t.Context(), db.UserUpdate{ID: "guest", FirstName: ptr("x")})
		}, []string{"g1", "g2", "o1"}},
		{"expired ones are removed", func(d *db.DB, t *testing.T) error {
			return d.DeleteExpiredSessions(t.Context(), at(150))
		}, []string{"g2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := world(t)
			long := session("g2", "guest")
			long.ExpiresAt = at(200)
			must(t, d.CreateSession(t.Context(), session("g1", "guest")), d.CreateSession(t.Context(), long),
				d.CreateSession(t.Context(), session("o1", "owner")))
			wantErr(t, tt.end(d, t), nil)
			var left []string
			for _, hash := range []string{"g1", "g2", "o1"} {
				if _, _, err := d.SessionUser(t.Context(), hash, at(50)); err == nil {
					left = append(left, hash)
				}
			}
			wantEqual(t, left, tt.left)
		})
	}
}

func TestSetPassword(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	wantErr(t, d.SetPassword(ctx, "nobody", "new", "", at(20)), db.ErrNotFound)
	wantErr(t, d.SetPassword(ctx, "guest", "new", "", at(20)), nil)
	got, err := d.GetUser(ctx, "guest")
	wantErr(t, err, nil)
	want := user("guest")
	want.PasswordHash, want.UpdatedAt = "new", at(20)
	wantEqual(t, got.User, want)
}
