package access

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// blockWriter keeps the writer busy until the returned function is called.
func blockWriter(t *testing.T, c *Control) (release func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	r := &request{reply: make(chan outcome, 1), apply: func(*dynsec.Tx) error {
		close(busy)
		<-free
		return nil
	}}
	must(t, c.writer.submit(r))
	<-busy
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	return release
}

// TestGroupSharesOneTransaction queues changes behind a busy writer, one that fails among
// them, and expects each to see the effects of the earlier ones.
func TestGroupSharesOneTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, groupSharesOneTransaction)
}

func groupSharesOneTransaction(t *testing.T) {
	ctx, c := t.Context(), fresh(t)
	must(t, c.CreateRole(ctx, role("r")))
	release := blockWriter(t, c)
	answers := make([]string, 4)
	var wg sync.WaitGroup
	for i, commands := range []string{
		`{"command":"createClient","username":"u","roles":[{"rolename":"r"}]}`,
		`{"command":"createClient","username":"u"}`,
		`{"command":"addGroupClient","groupname":"none","username":"u"}`,
		`{"command":"deleteRole","rolename":"r"},{"command":"getClient","username":"u"}`,
	} {
		wg.Go(func() { answers[i] = command(t, c, commands) })
		synctest.Wait()
	}
	release()
	wg.Wait()
	for i, want := range []string{
		`{"responses":[{"command":"createClient"}]}`,
		`{"responses":[{"command":"createClient","error":"Client already exists"}]}`,
		`{"responses":[{"command":"addGroupClient","error":"Group not found"}]}`,
		`{"responses":[{"command":"deleteRole"},{"command":"getClient","data":{"client":{"username":"u","roles":[],"groups":[],"connections":[]}}}]}`,
	} {
		if answers[i] != want {
			t.Errorf("request %d:\n got %s\nwant %s", i, answers[i], want)
		}
	}
	if got, want := inMemory(t, c), export(t, c); got != want {
		t.Errorf("memory %s\nfile %s", got, want)
	}
}

// TestBootstrapBehindAnImport queues both on a new broker; only one is the first.
func TestBootstrapBehindAnImport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fresh(t)
		release := blockWriter(t, c)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.ImportAccess(t.Context(), strings.NewReader(`{"clients":[]}`), false)
			must(t, err)
		})
		synctest.Wait()
		wg.Go(func() { wantKind(t, c.Bootstrap(t.Context(), "boss", "secret"), broker.Exists) })
		synctest.Wait()
		release()
		wg.Wait()
		if clients, _, _ := c.state.Load().Counts(); clients != 0 {
			t.Errorf("%d clients beside an import of none", clients)
		}
	})
}

// TestConcurrentChanges makes changes by many concurrent callers; however they are grouped,
// all must be present afterwards, in memory and in the file.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	must(t, c.CreateRole(ctx, role("r")), c.CreateGroup(ctx, broker.GroupSpec{GroupName: "g"}))
	const callers, each = 16, 25
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("u%d-%d", caller, i)
				err := c.CreateClient(ctx, broker.ClientSpec{Username: name, Roles: roleRefs([]string{"r"})})
				if err != nil {
					t.Errorf("create %s: %v", name, err)
				}
				if got, err := c.GetClient(ctx, name); err != nil || len(got.Roles) != 1 {
					t.Errorf("an acknowledged client is not visible: %v, %v", got, err)
				}
				if page, _ := c.ListClients(ctx, broker.ListOptions[broker.Client]{Count: 5}); page.Total == 0 {
					t.Error("an empty list after a client was created")
				}
			}
		})
	}
	wg.Wait()
	want := export(t, c)
	shut(t, c)
	again := open(t, path)
	if clients, _, _ := again.state.Load().Counts(); clients != callers*each {
		t.Errorf("found %d clients, want %d", clients, callers*each)
	}
	if got := inMemory(t, again); got != want {
		t.Error("the restart changed the configuration")
	}
}

func TestFullQueueRefusesTheNewest(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	release := blockWriter(t, c)
	var waiting []*request
	for range queueLength {
		r := &request{reply: make(chan outcome, 1), apply: func(*dynsec.Tx) error { return nil }}
		must(t, c.writer.submit(r))
		waiting = append(waiting, r)
	}
	wantKind(t, c.CreateRole(t.Context(), role("r")), broker.Unavailable)
	if got := command(t, c, `{"command":"createRole","rolename":"r"}`); !strings.Contains(got, `"error":"Nothing was changed, try again`) {
		t.Errorf("got %s", got)
	}
	if got := command(t, c, `{"command":"listRoles"}`); strings.Contains(got, "error") {
		t.Errorf("reading depends on the queue: %s", got)
	}
	release()
	for _, r := range waiting {
		must(t, (<-r.reply).err)
	}
	must(t, c.CreateRole(t.Context(), role("r")))
}

// TestCallerLeaves expects Unconfirmed, and that the change and its disconnects still happen.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, callerLeaves)
}

func callerLeaves(t *testing.T) {
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")), c.CreateClient(t.Context(), client("v")))
	told := make(chan []dynsec.Disconnect, 2)
	c.OnDisconnect(func(disconnects []dynsec.Disconnect) { told <- disconnects })
	release := blockWriter(t, c)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { wantKind(t, c.DisableClient(ctx, "u"), broker.Unconfirmed) })
	wg.Go(func() {
		answer, disconnects := c.Handle(ctx, []byte(`{"commands":[{"command":"disableClient","username":"v"}]}`))
		if answer != nil || disconnects != nil {
			t.Errorf("got %s and %v for a caller that left", answer, disconnects)
		}
	})
	synctest.Wait()
	cancel()
	wg.Wait()
	wantKind(t, c.DisableClient(ctx, "u"), broker.Unavailable)
	release()
	got := append(<-told, <-told...)
	for _, username := range []string{"u", "v"} {
		if !slices.Contains(got, dynsec.Disconnect{Username: username}) {
			t.Errorf("%s is not among the disconnects %v", username, got)
		}
		if cl, err := c.GetClient(t.Context(), username); err != nil || !cl.Disabled {
			t.Errorf("%s was not disabled: %v", username, err)
		}
	}
}

// TestClose expects queued changes to be stored, and later ones to be refused.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, closing)
}

func closing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	release := blockWriter(t, c)
	var wg sync.WaitGroup
	wg.Go(func() { must(t, c.CreateRole(t.Context(), role("last"))) })
	synctest.Wait()
	bounded, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(bounded); err == nil {
		t.Error("close does not honour its context")
	}
	wantKind(t, c.CreateRole(t.Context(), role("late")), broker.Unavailable)
	release()
	wg.Wait()
	shut(t, c)
	shut(t, c)
	if _, ok := open(t, path).state.Load().Role("last"); !ok {
		t.Error("what was queued is missing")
	}
	if _, err := c.Authenticate(t.Context(), login("u", "secret")); err == nil {
		t.Error("a closed broker authenticates")
	}
}
