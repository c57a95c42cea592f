package auth_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/handlers/auth"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

const (
	password = "correct horse battery staple"
	home     = "192.0.2.1"
)

// hashed is the hash of password, computed once because it is expensive on purpose.
var hashed = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash(password, &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		panic(err)
	}
	return hash
})

// clock is a clock that a test moves.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time           { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) forward(by time.Duration) { c.ms.Add(by.Milliseconds()) }

// world is an Auth over a database with project p of user "owner", project q of user
// "root", and a third user who is an editor in p. All have the password.
type world struct {
	*auth.Auth
	db    *db.DB
	clock *clock
}

func newWorld(t testing.TB, cfg auth.Config) world {
	t.Helper()
	c := &clock{}
	c.ms.Store(1_700_000_000_000)
	w := world{db: dbtest.New(t), clock: c}
	w.Auth = auth.New(w.db, cfg, c.now, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { must(t, w.Close(context.WithoutCancel(t.Context()))) })
	for _, id := range []string{"owner", "guest", "root"} {
		w.addUser(t, db.User{ID: id, PasswordHash: hashed(), Verified: true, Root: id == "root"})
	}
	must(t,
		w.db.CreateProject(t.Context(), db.Project{ID: "p", OwnerID: "owner"}),
		w.db.CreateProject(t.Context(), db.Project{ID: "q", OwnerID: "root"}),
		w.db.PutMember(t.Context(), "p", "guest", "editor", c.now()))
	return w
}

func (w world) addUser(t testing.TB, u db.User) {
	t.Helper()
	u.Email, u.FirstName = u.ID+"@example.org", u.ID
	must(t, w.db.CreateUser(t.Context(), u))
}

func (w world) login(t testing.TB, id string) auth.Session {
	t.Helper()
	s, err := w.Login(t.Context(), id+"@example.org", password, auth.Origin{Caller: home})
	must(t, err)
	return s
}

func (w world) principal(t testing.TB, credential string) *auth.Principal {
	t.Helper()
	p, err := w.Authenticate(t.Context(), credential)
	must(t, err)
	return p
}

// issue stores a token and returns its value.
func (w world) issue(t testing.TB, tok db.Token) (value string) {
	t.Helper()
	value, tok.Hash = auth.NewToken()
	tok.OwnerID = cmp.Or(tok.OwnerID, "owner")
	must(t, w.db.CreateToken(t.Context(), tok))
	return value
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("got error %v, want %v", got, want)
	}
}
