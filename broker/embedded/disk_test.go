package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// Environment variables that select the kind of disk in the child process, and its path.
const (
	diskKind = "EMBEDDED_DISK_KIND"
	diskDir  = "EMBEDDED_DISK_DIR"
)

// disk is the file system of a broker's file, which can be made to fail.
type disk interface {
	// spoil makes writes to the disk fail, and mend ends that.
	spoil(t *testing.T)
	mend(t *testing.T)
	// message is part of the operator's error message.
	message() string
}

// smallDisk is a file system in memory, which is filled.
type smallDisk string

func (d smallDisk) filler() string { return filepath.Join(string(d), "filler") }

func (d smallDisk) spoil(t *testing.T) {
	t.Helper()
	f, err := os.Create(d.filler())
	for block := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
}

func (d smallDisk) mend(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
}

func (smallDisk) message() string { return "free some space" }

// brokenDisk is one on which every write fails.
type brokenDisk struct{}

func (brokenDisk) spoil(t *testing.T) { limitFiles(t, 0) }
func (brokenDisk) mend(t *testing.T)  { limitFiles(t, 1<<40) }
func (brokenDisk) message() string    { return "reports an error" }

// limitFiles bounds the size of files that this process writes, in bytes.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: 1 << 40}); err != nil {
		t.Fatal(err)
	}
}

// TestDisk makes the disk of a running broker fail, and work again. It runs in processes of
// its own, because a limit of file sizes applies to a whole process and a mount needs a
// namespace that ends with it.
func TestDisk(t *testing.T) {
	t.Parallel()
	if kind := os.Getenv(diskKind); kind != "" {
		onDisk(t, kind, os.Getenv(diskDir))
		return
	}
	for _, kind := range []string{"full", "broken"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDisk$", "-test.v")
			process.Env = append(os.Environ(), diskKind+"="+kind, diskDir+"="+t.TempDir())
			if kind == "full" {
				process.SysProcAttr = ownMounts()
			}
			out, err := process.CombinedOutput()
			switch {
			case errors.Is(err, syscall.EPERM):
				t.Skip("this user may not mount: a full disk cannot be had, but see the broken one")
			case err != nil || !strings.Contains(string(out), "--- PASS: TestDisk"):
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// ownMounts allows a process to mount; without root it runs in a user namespace.
func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags = syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

func onDisk(t *testing.T, kind, dir string) {
	t.Helper()
	if kind == "broken" {
		signal.Ignore(syscall.SIGXFSZ)
		testDisk(t, dir, brokenDisk{})
		return
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	testDisk(t, dir, smallDisk(dir))
}

// diskTest is a broker with clients of every kind, and what they received.
type diskTest struct {
	*testing.T
	b          *Broker
	disk       disk
	five, four *device // publishers
	here       *device // QoS 1, its session is kept
	live       *device // QoS 1, its session is not kept
	sent       int
	stored     []string // payloads of "kept" that were acknowledged
	refused    []string // those that were refused
	taken      int      // how many of the stored ones the connected client has acknowledged
}

func testDisk(t *testing.T, dir string, d disk) {
	config := testConfig()
	b := open(t, config, dir)
	dt := &diskTest{T: t, b: b, disk: d}
	dt.connect()
	for range 3 {
		dt.publishKept()
	}
	dt.receive()

	d.spoil(t)
	dt.fail()
	dt.wantRefused()
	dt.wantServed()
	dt.wantAnswers()

	d.mend(t)
	eventually(t, "the broker stores again", func() bool { return b.Healthy(t.Context()) == nil })
	dt.publishKept()
	if n := len(dt.stored); len(dt.refused) == 0 || dt.stored[n-1] != dt.last() {
		t.Fatalf("stored %q, refused %q", dt.stored, dt.refused)
	}
	dt.wantAll(dt.b)
	closeNow(t, b)
	again := open(t, config, dir)
	dt.wantNothingMore(again)
}

func (t *diskTest) connect() {
	login := as(adminName, adminPassword)
	t.five, t.four = join(t.T, t.b, 5, login), join(t.T, t.b, 4, login)
	t.here = join(t.T, t.b, 5, login, withID("here"), persistent)
	t.here.Subscribe(1, "kept")
	away := join(t.T, t.b, 5, login, withID("away"), persistent)
	away.Subscribe(1, "kept")
	away.Conn.Close()
	away.wantForgotten(t.b)
	t.live = join(t.T, t.b, 5, login)
	t.live.Subscribe(1, "live")
}

// publishKept publishes what must be stored, and records the result.
func (t *diskTest) publishKept() (refused bool) {
	t.Helper()
	t.sent++
	payload := t.last()
	switch code := t.five.Publish("kept", payload+strings.Repeat(" ", 32<<10), 1); code {
	case 0:
		t.stored = append(t.stored, payload)
	case packet.QuotaExceeded:
		t.refused = append(t.refused, payload)
		return true
	default:
		t.Fatalf("PUBACK code %#x", code)
	}
	return false
}

func (t *diskTest) last() string { return fmt.Sprint("message ", t.sent) }

// receive reads on the connected client what was stored since its last call.
func (t *diskTest) receive() {
	t.Helper()
	for _, want := range t.stored[t.taken:] {
		pk := t.here.Want(packet.Publish)
		if got := strings.TrimSpace(string(pk.Payload)); got != want || pk.Dup {
			t.Errorf("got %q (again: %t), want %q", got, pk.Dup, want)
		}
		t.here.Send(packet.Packet{Type: packet.Puback, ID: pk.ID})
		t.taken++
	}
}

// fail publishes until the disk is full: the existing files may have space left.
func (t *diskTest) fail() {
	t.Helper()
	const most = 1000
	for range most {
		if t.publishKept() {
			return
		}
	}
	t.Fatalf("%d messages were stored on a disk that takes nothing", most)
}

// wantRefused publishes in every way that needs the disk.
func (t *diskTest) wantRefused() {
	t.Helper()
	if err := t.b.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), t.disk.message()) {
		t.Errorf("health: %v, want a sentence with %q", err, t.disk.message())
	}
	if !t.publishKept() {
		t.Error("a message was taken that cannot be stored")
	}
	if got := t.five.StartPublish("kept", "refused", 2).Reason; got != packet.QuotaExceeded {
		t.Errorf("PUBREC code %#x", got)
	}
	retained := t.five.Message("kept/retained", "refused", 1, true)
	t.five.Send(retained)
	if got := t.five.Want(packet.Puback).Reason; got != packet.QuotaExceeded {
		t.Errorf("retained message: PUBACK code %#x", got)
	}
	for qos := range byte(2) { // the connection ends [MQTT-4.8.0-2 of 3.1.1]
		t.four.Send(t.four.Message("kept", "refused", qos+1, false))
		t.four.WantEnd()
		t.four = join(t.T, t.b, 4, as(adminName, adminPassword))
	}
	if err := t.b.Publish(t.Context(), broker.PublishSpec{Topic: "kept", QoS: 1}); err == nil {
		t.Error("an administrator's message was taken that cannot be stored")
	}
}

// wantServed does everything that needs no disk.
func (t *diskTest) wantServed() {
	t.Helper()
	for _, d := range []*device{t.five, t.four} {
		for qos := range byte(2) {
			d.StartPublish("live", "x", qos)
			if pk := t.live.Want(packet.Publish); pk.QoS > 0 {
				t.live.Send(packet.Packet{Type: packet.Puback, ID: pk.ID})
			}
		}
	}
	t.receive()
}

// wantAnswers connects and subscribes: what needs the disk is refused as the version
// defines it, and the rest goes on.
func (t *diskTest) wantAnswers() {
	t.Helper()
	login := as(adminName, adminPassword)
	for version, want := range map[byte]byte{4: 3, 5: packet.QuotaExceeded} {
		d := dial(t.T, t.b, version)
		if got := d.SendConnect(login, withID("new"), persistent).Reason; got != want {
			t.Errorf("version %d, a new session: CONNACK code %d, want %d", version, got, want)
		}
		d.WantEnd()
		fleeting := join(t.T, t.b, version, login, withID("fleeting"))
		if codes := fleeting.Subscribe(1, "x"); codes[0] != 1 {
			t.Errorf("version %d, a session that is not kept: SUBACK code %d", version, codes[0])
		}
	}
	if codes := t.here.Subscribe(1, "other"); codes[0] != packet.QuotaExceeded {
		t.Errorf("SUBACK code %#x", codes[0])
	}
	back := dial(t.T, t.b, 5)
	if ack := back.SendConnect(login, withID("here"), persistent); ack.Reason != 0 || !ack.Present {
		t.Errorf("an existing session: CONNACK code %d, session present: %t", ack.Reason, ack.Present)
	}
	t.here = back
}

// wantAll expects every client to receive what was acknowledged, and nothing that was
// refused.
func (t *diskTest) wantAll(b *Broker) {
	t.Helper()
	t.receive()
	if got := t.here.Settled(); len(got) > 0 {
		t.Errorf("more messages than were acknowledged: %q", got)
	}
	away := join(t.T, b, 5, as(adminName, adminPassword), withID("away"), persistent)
	t.here.Conn.Close()
	t.here, t.taken = away, 0
	t.receive()
	if got := away.Settled(); len(got) > 0 {
		t.Errorf("more messages than were acknowledged: %q", got)
	}
}

// wantNothingMore expects nothing that acknowledgements should have removed: they were
// stored as soon as that was possible.
func (t *diskTest) wantNothingMore(b *Broker) {
	t.Helper()
	for _, id := range []string{"here", "away"} {
		d := dial(t.T, b, 5)
		if ack := d.SendConnect(as(adminName, adminPassword), withID(id), persistent); !ack.Present {
			t.Errorf("the session of %s does not exist", id)
		}
		if got := d.Settled(); len(got) > 0 {
			t.Errorf("%s gets %q after the restart", id, got)
		}
	}
	if slices.Contains(clientIDs(b), "new") {
		t.Error("a session that was refused exists")
	}
	if i, _, _ := b.engine.Client("here"); i.Subscribed != 1 {
		t.Errorf("%d subscriptions, want 1", i.Subscribed)
	}
	if list, err := b.ListRetained(t.Context(), "kept/#", 0, -1); err != nil || list.Total > 0 {
		t.Errorf("%d retained messages (%v)", list.Total, err)
	}
}
