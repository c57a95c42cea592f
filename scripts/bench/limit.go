//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/julienschmidt/httprouter"
	_ "modernc.org/sqlite" // the driver
)

// limitCommand runs this program as the limit: a router and a database, and nothing
// between them. Its arguments are the file, the token and the number of clients.
const limitCommand = "limit"

// plain is the process of the limit.
type plain struct {
	*child
	*api
	url string
}

// newPlain starts this program as the limit, with that many clients.
func (b *bench) newPlain(ctx context.Context, clients int) (*plain, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &plain{api: newAPI()}
	p.token = "plain-token"
	ready := func(line string) (serves bool) {
		p.url, serves = strings.CutPrefix(line, "serving ")
		return serves
	}
	p.child, err = launch(ctx, nil, ready, self, limitCommand, b.path("plain.db"), p.token, strconv.Itoa(clients))
	if err == nil {
		b.started = append(b.started, p)
	}
	return p, err
}

// serveLimit runs the limit until ctx is done.
func serveLimit(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("limit: want FILE TOKEN CLIENTS")
	}
	clients, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+args[0]+"?_pragma=journal_mode(WAL)&_pragma=cache_size(-65536)")
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // a scratch file
	db.SetMaxIdleConns(8)
	if err := fillPlain(ctx, db, args[1], clients); err != nil {
		return err
	}
	s, err := preparePlain(ctx, db)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.routes()} //nolint:gosec // its only caller is the bench
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintf(out, "serving http://%s/brokers/b/clients\n", ln.Addr())
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func fillPlain(ctx context.Context, db *sql.DB, token string, clients int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	const schema = `
		CREATE TABLE tokens (hash TEXT PRIMARY KEY, role TEXT NOT NULL) WITHOUT ROWID;
		CREATE TABLE clients (username TEXT PRIMARY KEY, roles TEXT NOT NULL, groups TEXT NOT NULL, disabled INTEGER NOT NULL) WITHOUT ROWID`
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO tokens (hash, role) VALUES (?, ?)`, hashOf(token), "editor"); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO clients (username, roles, groups, disabled) VALUES (?, ?, ?, 0)`)
	if err != nil {
		return err
	}
	for n := range clients {
		groups := fmt.Sprintf(`[{"groupname":%q}]`, groupName(n))
		if _, err := insert.ExecContext(ctx, clientName(n), `[{"rolename":"device"}]`, groups); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// statements are the prepared statements of the limit.
type statements struct{ token, client, page *sql.Stmt }

func preparePlain(ctx context.Context, db *sql.DB) (s statements, err error) {
	for into, query := range map[**sql.Stmt]string{
		&s.token:  `SELECT role FROM tokens WHERE hash = ?`,
		&s.client: `SELECT username, roles, groups, disabled FROM clients WHERE username = ?`,
		&s.page:   `SELECT username, roles, groups, disabled FROM clients WHERE username > ? ORDER BY username LIMIT ?`,
	} {
		if *into, err = db.PrepareContext(ctx, query); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s statements) routes() http.Handler {
	r := httprouter.New()
	r.GET("/brokers/:broker/clients", func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		list, err := s.answer(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(list) //nolint:errcheck // the caller sees that it is truncated
	})
	return r
}

// record is a client in the product's representation.
type record struct {
	Username string          `json:"username"`
	Roles    json.RawMessage `json:"roles"`
	Groups   json.RawMessage `json:"groups"`
	Disabled bool            `json:"disabled"`
}

// answer checks the token, then returns one client, or a page by its key.
func (s statements) answer(r *http.Request) ([]record, error) {
	ctx := r.Context()
	var role string
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err := s.token.QueryRowContext(ctx, hashOf(token)).Scan(&role); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	if query.Has("after") {
		return s.list(ctx, query.Get("after"))
	}
	var c record
	err := scan(&c, s.client.QueryRowContext(ctx, query.Get("username")))
	return []record{c}, err
}

func (s statements) list(ctx context.Context, after string) (list []record, err error) {
	rows, err := s.page.QueryContext(ctx, after, pageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c record
		if err := scan(&c, rows); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

func scan(c *record, row interface{ Scan(...any) error }) error {
	return row.Scan(&c.Username, (*[]byte)(&c.Roles), (*[]byte)(&c.Groups), &c.Disabled)
}
