package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/control"
)

// fullDisk is set for a process whose nodes have disks of their own.
const fullDisk = "EMBEDDED_FULL_DISK"

// TestFullDisks fills the disk of a follower, and of the leader, in a process of its own;
// see TestDisk.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	if os.Getenv(fullDisk) != "" {
		testFullDisks(t)
		return
	}
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisks$", "-test.v")
	process.Env = append(os.Environ(), fullDisk+"=1")
	process.SysProcAttr = ownMounts()
	out, err := process.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM):
		t.Skip("this user may not mount: a full disk cannot be had")
	case err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisks"):
		t.Errorf("%v:\n%s", err, out)
	}
}

func testFullDisks(t *testing.T) {
	t.Helper()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) },
		func(n *node) {
			if err := syscall.Mount("tmpfs", n.dir, "tmpfs", 0, "size=64m"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(n.dir, 0); err != nil {
					t.Error(err)
				}
			})
		})
	reader := newRoamer(t, all, "reader")
	d := join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID(reader.ID), persistent)
	d.Subscribe(2, "news/#")
	d.Conn.Close()
	publisher := newRoamer(t, all, "publisher")
	publisher.extra = " " + strings.Repeat("x", 8<<10)
	ctx, cancel := context.WithCancel(t.Context())
	var roaming sync.WaitGroup
	defer roaming.Wait()
	defer cancel()
	roaming.Go(func() {
		publisher.roam(ctx, func() error {
			select {
			case <-time.After(5 * time.Millisecond): // as the log of a cluster is long
			case <-ctx.Done():
			}
			return publisher.publishNext(2)
		})
	})
	roaming.Go(func() { reader.roam(ctx, reader.receive) })
	goesOn := func() {
		t.Helper()
		from := publisher.count.Load()
		eventually(t, "messages are published", func() bool { return publisher.count.Load() > from+50 })
	}
	goesOn()

	for _, leads := range []bool{false, true} {
		leader := all.serving(t)
		unlucky := leader
		if !leads {
			unlucky = all.others(leader)[0]
		}
		t.Logf("the disk of node %d is full, while %d leads", unlucky.at.NodeID, leader.at.NodeID)
		disk := smallDisk(unlucky.dir)
		disk.spoil(t)
		eventually(t, "the disk is full", func() bool {
			if unlucky.Healthy(t.Context()) != nil {
				return true
			}
			now := all.leader()
			return now != nil && now.cluster.node.Status().CommitIndex > unlucky.cluster.node.Status().LastStored+5
		})
		t.Logf("health: %v; status: %v", unlucky.Healthy(t.Context()), unlucky.cluster.node.Status().ErrMsg)
		goesOn()
		disk.mend(t)
		eventually(t, "all nodes are there", func() bool {
			return all.areAll() && unlucky.Healthy(t.Context()) == nil
		})
		goesOn()
		eventually(t, "the node leads", func() bool { // once it has caught up
			err := all.serving(t).AskHA(t.Context(), control.SetLeader("plant", unlucky.at.NodeID), nil)
			if err != nil && !errors.Is(err, control.ErrUnconfirmed) {
				t.Fatal(err)
			}
			return err == nil
		})
		goesOn()
	}
	count := publisher.count.Load()
	times := map[string]int{}
	eventually(t, "all was received", func() bool {
		clear(times)
		for payload, n := range reader.times() {
			name, _, _ := strings.Cut(payload, " x")
			times[name] += n
		}
		return times[fmt.Sprintf("publisher %d", count-1)] > 0
	})
	for n := range count {
		if got := times[fmt.Sprintf("publisher %d", n)]; got != 1 {
			t.Errorf("message %d was received %d times", n, got)
		}
	}
}
