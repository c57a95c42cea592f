package db_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCachedReadsNeverGoBack reads a row without end while it is changed:
// a reader that begins after a change was acknowledged sees that change.
func TestCachedReadsNeverGoBack(t *testing.T) {
	t.Parallel()
	d, b := world(t), connection("b", "p")
	b.Rev = 1
	var acknowledged atomic.Int64
	acknowledged.Store(b.Rev)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := acknowledged.Load()
				if got, err := d.GetBroker(t.Context(), b.ProjectID, b.ID); err != nil || got.Rev < least {
					t.Errorf("read revision %d, %v after %d was acknowledged", got.Rev, err, least)
					return
				}
			}
		})
	}
	for range 200 {
		if err := d.UpdateBroker(t.Context(), b); err != nil {
			t.Error(err)
			break
		}
		b.Rev++
		acknowledged.Store(b.Rev)
	}
	close(stop)
	readers.Wait()
}

// TestCachedReadsAreBounded reads more rows than are cached.
func TestCachedReadsAreBounded(t *testing.T) {
	t.Parallel()
	d := world(t)
	for i := range 5000 {
		if role, err := d.RoleOf(t.Context(), "p", fmt.Sprint("nobody", i)); err != nil || role != "" {
			t.Fatalf("got %q, %v for a user that is no member", role, err)
		}
	}
	if role, err := d.RoleOf(t.Context(), "p", "owner"); err != nil || role != "admin" {
		t.Errorf("got %q, %v for the owner", role, err)
	}
}

// TestCachedReads reads rows twice, the second time with a context that would end a read.
func TestCachedReads(t *testing.T) {
	t.Parallel()
	d := world(t)
	must(t, d.CreateSession(t.Context(), session("s", "guest")))
	over, end := context.WithCancel(t.Context())
	end()
	for _, ctx := range []context.Context{t.Context(), over} {
		_, u, err := d.SessionUser(ctx, "s", at(0))
		wantErr(t, err, nil)
		wantEqual(t, u, user("guest"))
		p, err := d.GetProject(ctx, "p")
		wantErr(t, err, nil)
		wantEqual(t, p.ID, "p")
	}
}
