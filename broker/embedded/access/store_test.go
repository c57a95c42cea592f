package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/embedded/schema"
)

// TestFullDisk limits the file's size, which SQLite reports as a full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), fresh(t)
	must(t, c.CreateRole(ctx, role("before")), c.Ping(ctx))
	limit := func(pages int) {
		_, err := c.store.w.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		must(t, err)
	}
	limit(1) // SQLite keeps the current number of pages
	big := role("big", strings.Repeat("x", 60_000))
	err := c.CreateRole(ctx, big)
	wantKind(t, err, broker.Internal)
	if e, _ := errors.AsType[*broker.Error](err); !strings.Contains(e.Msg, "disk") || e.Op != "createRole" {
		t.Errorf("got %+v, want a sentence about the disk", e)
	}
	answer := command(t, c, `{"command":"createRole","rolename":"`+strings.Repeat("y", 60_000)+`","correlationData":"z"},{"command":"listRoles"}`)
	if want := `{"responses":[{"command":"createRole","error":"Internal error","correlationData":"z"},{"command":"listRoles","error":"Internal error"}]}`; answer != want {
		t.Errorf("got %s, want %s", answer, want)
	}
	if got, want := command(t, c, `{"command":"listRoles"}`), `{"responses":[{"command":"listRoles","data":{"totalCount":1,"roles":["before"]}}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	limit(1 << 30)
	must(t, c.Ping(ctx), c.CreateRole(ctx, big))
	if diff := cmp.Diff(inMemory(t, c), export(t, c)); diff != "" {
		t.Errorf("memory (-) and file (+) differ:\n%s", diff)
	}
}

func TestLostDatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := Open(ctx, Options{Path: filepath.Join(t.TempDir(), "broker.db")})
	must(t, err, c.CreateRole(ctx, role("r")), c.store.w.Close())
	defer c.Close(ctx) //nolint:errcheck // it cannot succeed
	wantKind(t, c.CreateRole(ctx, role("s")), broker.Internal)
	wantKind(t, c.Ping(ctx), broker.Internal)
	if _, ok := c.state.Load().Role("s"); ok {
		t.Error("what could not be stored is visible")
	}
	if _, ok := c.state.Load().Role("r"); !ok {
		t.Error("what was stored is missing")
	}
}

// TestSharedFile uses a file of the caller, and leaves it open.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	f, err := schema.Open(t.Context(), filepath.Join(t.TempDir(), "broker.db"), slog.New(slog.DiscardHandler))
	must(t, err)
	c, err := Open(t.Context(), Options{File: f})
	must(t, err)
	must(t, f.Lock(t.Context()))
	waiting, leave := context.WithCancel(t.Context())
	leave()
	if err := c.Ping(waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v while another writer holds the lock, want the end of the wait", err)
	}
	f.Unlock()
	must(t, c.CreateRole(t.Context(), role("r")))
	shut(t, c)
	again, err := Open(t.Context(), Options{File: f})
	must(t, err)
	if _, ok := again.state.Load().Role("r"); !ok {
		t.Error("what was stored is missing")
	}
	shut(t, again)
	must(t, f.Close())
}
