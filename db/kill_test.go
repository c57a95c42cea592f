package db_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/scripts/suite"
)

const (
	writerEnv = "DB_TEST_WRITER" // in the child: the database to write to
	killsEnv  = "DB_TEST_KILLS"  // how many children to kill, a dozen if empty

	killsPerDatabase = 25 // so that comparing everything stays short
)

// What a method acknowledged is there after SIGKILL, and nothing is there by half: neither an
// object without its row in the audit log nor a row without its object.
func TestCampaignKilledWriter(t *testing.T) {
	t.Parallel()
	var path string
	var acknowledged []string
	for i := range kills(t) {
		if i%killsPerDatabase == 0 {
			path, acknowledged = filepath.Join(t.TempDir(), "signalbox.db"), nil
		}
		acknowledged = append(acknowledged, killWriter(t, path, 1+rand.IntN(40))...)
		stored := readAfterKill(t, path)
		for _, write := range acknowledged {
			if !stored[write] {
				t.Fatalf("%s was acknowledged and is gone", write)
			}
		}
	}
}

func kills(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(os.Getenv(killsEnv)))
	if os.Getenv(killsEnv) == "" {
		return 12
	}
	must(t, err)
	return n
}

// killWriter starts a writer, kills it once it acknowledged that many writes, and
// returns all that it acknowledged.
func killWriter(t *testing.T, path string, after int) (acknowledged []string) {
	t.Helper()
	var complaints strings.Builder
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), writerEnv+"="+path)
	child.Stderr = &complaints
	out, err := child.StdoutPipe()
	must(t, err, child.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		acknowledged = append(acknowledged, lines.Text())
		if len(acknowledged) == after {
			must(t, child.Process.Kill())
		}
	}
	if err := child.Wait(); len(acknowledged) < after {
		t.Fatalf("the writer ended by itself: %v: %s", err, complaints.String())
	}
	return acknowledged
}

// readAfterKill opens the database and returns what is in it. Of the write under way
// when the process died either all or nothing may be there.
func readAfterKill(t *testing.T, path string) (stored map[string]bool) {
	t.Helper()
	d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	must(t, err)
	projects, err := d.AllProjects(t.Context())
	must(t, err)
	stored = map[string]bool{}
	for _, p := range projects {
		stored["project "+p.ID] = true
		if members, err := d.ListMembers(t.Context(), p.ID); err != nil || len(members) != 1 {
			t.Errorf("project %s: %d members, %v", p.ID, len(members), err)
		}
		brokers, err := d.ListBrokers(t.Context(), p.ID)
		must(t, err)
		for _, b := range brokers {
			stored["broker "+b.ID] = true
		}
		tokens, err := d.ListTokens(t.Context(), p.ID)
		must(t, err)
		for _, tok := range tokens {
			stored["token "+tok.ID] = true
			wantEqual(t, tok.Brokers, []string{tok.ID})
		}
	}
	checkAudit(t, d, stored)
	must(t, d.Close(t.Context()))
	return stored
}

// checkAudit checks that the rows of the audit log are those of the stored objects, that those
// of changes elsewhere have an end, and that the chain is whole.
func checkAudit(t *testing.T, d *db.DB, stored map[string]bool) {
	t.Helper()
	_, err := d.CloseAudits(t.Context())
	must(t, err)
	_, err = d.VerifyAudit(t.Context(), nil)
	must(t, err)
	rows, err := d.ListAudit(t.Context(), db.AuditFilter{}, 1<<30)
	must(t, err)
	named := map[string]bool{}
	for _, e := range rows {
		switch {
		case e.Operation == "elsewhere":
		case e.Outcome != db.AuditDone || named[e.Operation+" "+e.Object]:
			t.Errorf("%s of %s: %s, or twice", e.Operation, e.Object, e.Outcome)
		default:
			named[e.Operation+" "+e.Object] = true
		}
	}
	if diff := cmp.Diff(stored, named); diff != "" {
		t.Errorf("objects and their rows (-objects +rows):\n%s", diff)
	}
}

// writeUntilKilled is the child: it writes a project, a broker and a token in
// turn, and names each on its standard output once it is acknowledged.
func writeUntilKilled(path string) int {
	err := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
		defer cancel()
		d, err := db.Open(ctx, path, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		if err := d.CreateUser(ctx, user("owner")); err != nil && !errors.Is(err, db.ErrExists) {
			return err
		}
		for {
			if err := writeRound(ctx, d, os.Stdout); err != nil {
				return err
			}
		}
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func writeRound(ctx context.Context, d *db.DB, acknowledge io.Writer) error {
	id := strconv.FormatUint(rand.Uint64(), 36)
	for _, w := range []struct {
		kind  string
		write func(context.Context) error
	}{
		{"project", func(ctx context.Context) error { return d.CreateProject(ctx, project(id, "owner")) }},
		{"broker", func(ctx context.Context) error { return d.CreateBroker(ctx, connection(id, id)) }},
		{"token", func(ctx context.Context) error { return d.CreateToken(ctx, token(id, id, id)) }},
	} {
		audited, _ := db.WithAudit(ctx, db.AuditEvent{Time: time.Now(), Operation: w.kind, Object: id})
		if err := w.write(audited); err != nil {
			return err
		}
		_, elsewhere := db.WithAudit(ctx, db.AuditEvent{Time: time.Now(), Operation: "elsewhere", Object: id})
		if err := errors.Join(d.BeginAudit(ctx, elsewhere), d.EndAudit(ctx, elsewhere, db.AuditDone, 204, "")); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(acknowledge, w.kind, id); err != nil {
			return err
		}
	}
	return nil
}
