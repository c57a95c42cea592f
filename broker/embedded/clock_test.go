package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/mqtttest/packet"
)

const days = 24 * time.Hour

// aging is a broker on a machine whose clocks the test sets.
type aging struct {
	*clocktest.Machine
	t      *testing.T
	dir    string
	config Config
	clock  *clock.Clock
	broker *Broker
}

// newAging starts one.
func newAging(t *testing.T) *aging {
	t.Helper()
	a := &aging{Machine: clocktest.New(), t: t, dir: t.TempDir(), config: testConfig()}
	a.open()
	return a
}

func (a *aging) open() {
	a.t.Helper()
	a.clock = clock.New(a.Sources(), slog.New(slog.DiscardHandler))
	a.config.Clock = a.clock
	a.broker = open(a.t, a.config, a.dir)
}

// set changes the time of day while the service runs.
func (a *aging) set(by time.Duration) {
	a.Step(by)
	a.clock.Look()
}

// restart stops the service and starts it again.
func (a *aging) restart(meanwhile func()) {
	a.t.Helper()
	closeNow(a.t, a.broker)
	meanwhile()
	a.open()
}

// kill starts the service again from what is on the disk.
func (a *aging) kill(meanwhile func()) {
	a.t.Helper()
	left := a.t.TempDir()
	if err := a.broker.file.Lock(a.t.Context()); err != nil { // no write or checkpoint meanwhile
		a.t.Fatal(err)
	}
	for _, name := range []string{DatabaseFile, DatabaseFile + "-wal"} {
		b, err := os.ReadFile(filepath.Join(a.dir, name))
		if err != nil {
			a.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, name), b, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	a.broker.file.Unlock()
	closeNow(a.t, a.broker)
	meanwhile()
	a.dir = left
	a.open()
}

// pass advances the clocks and does what is then due.
func (a *aging) pass(d time.Duration) {
	a.t.Helper()
	a.Pass(d)
	a.clock.Look()
	a.restart(func() {})
}

func (a *aging) has(clientID string) bool {
	_, _, err := a.broker.engine.Client(clientID)
	return err == nil
}

func lasting(id string, seconds uint32) connectOption {
	return func(pk *packet.Packet) {
		persistent(pk)
		pk.Connect.ClientID, pk.Properties.SessionExpiry = id, seconds
	}
}

// createExpiring creates what expires: two sessions, a Will, a queued message, and a
// retained one.
func (a *aging) createExpiring() {
	a.t.Helper()
	as := as(adminName, adminPassword)
	sleeper := join(a.t, a.broker, 5, as, lasting("sleeper", 3600))
	sleeper.Subscribe(1, "queued", "will")
	sleeper.Conn.Close()
	brief := join(a.t, a.broker, 5, as, lasting("brief", 600), withWill("will", "bye"),
		func(pk *packet.Packet) {
			pk.Connect.Will.QoS, pk.Connect.Will.Properties.WillDelay = 1, 300
		})
	brief.Conn.Close()
	sleeper.ID, brief.ID = "sleeper", "brief"
	sleeper.wantForgotten(a.broker)
	brief.wantForgotten(a.broker)
	publisher := join(a.t, a.broker, 5, as)
	for topic, retain := range map[string]bool{"queued": false, "retained": true} {
		m := publisher.Message(topic, "x", 1, retain)
		m.Properties.MessageExpiry = 1800
		publisher.Send(m)
		publisher.Want(packet.Puback)
	}
	ban := broker.Ban{Kind: broker.BanClientID, Value: "flapping", CreatedBy: limits.ByFlapping, ExpiresAt: a.broker.timeline.Now().Add(20 * time.Minute)}
	if _, err := a.broker.bans.Add(a.t.Context(), ban); err != nil {
		a.t.Fatal(err)
	}
}

// wantAged fails the test unless what createExpiring created has the given age.
func (a *aging) wantAged(d time.Duration) {
	a.t.Helper()
	queued := 1
	if d >= 5*time.Minute {
		queued = 2 // including the Will
	}
	eventually(a.t, "what is due is done", func() bool {
		i, _, err := a.broker.engine.Client("sleeper")
		return err == nil && int(i.Queue.Messages) >= queued && a.has("brief") == (d < 10*time.Minute)
	})
	if i, _, _ := a.broker.engine.Client("sleeper"); int(i.Queue.Messages) != queued {
		a.t.Errorf("after %v %d messages wait for the sleeper, want %d", d, i.Queue.Messages, queued)
	}
	if _, got := a.broker.engine.RetainedOf("retained"); got != (d < 30*time.Minute) {
		a.t.Errorf("after %v the retained message exists: %v", d, got)
	}
	if got := len(a.broker.bans.List()); got > 0 != (d < 20*time.Minute) {
		a.t.Errorf("after %v there are %d bans", d, got)
	}
}

// wantLeft fails the test unless messages reach clients with the given rest of their expiry
// interval.
func (a *aging) wantLeft(want uint32) {
	a.t.Helper()
	as := as(adminName, adminPassword)
	sleeper := join(a.t, a.broker, 5, as, lasting("sleeper", 3600))
	reader := join(a.t, a.broker, 5, as)
	if m := sleeper.Want(packet.Publish); m.Topic != "queued" || m.Properties.MessageExpiry != want {
		a.t.Errorf("%q has %d s left, want %d", m.Topic, m.Properties.MessageExpiry, want)
	}
	reader.Send(packet.Packet{Type: packet.Subscribe, ID: 1,
		Filters: []packet.Filter{{Filter: "retained", QoS: 1}}})
	reader.Want(packet.Suback)
	if m := reader.Want(packet.Publish); m.Properties.MessageExpiry != want {
		a.t.Errorf("the retained message has %d s left, want %d", m.Properties.MessageExpiry, want)
	}
}

// clockFaults are changes of the time of day, by by, while passes elapses.
var clockFaults = map[string]func(a *aging, by, passes time.Duration){
	"while it runs": func(a *aging, by, passes time.Duration) { a.set(by); a.pass(passes) },
	"while it stands still": func(a *aging, by, passes time.Duration) {
		a.restart(func() { a.Step(by); a.Pass(passes) })
	},
	"while it runs, then the machine is restarted": func(a *aging, by, passes time.Duration) {
		a.set(by)
		a.restart(func() { a.Restart(passes) })
	},
	"twice, then it is killed": func(a *aging, by, passes time.Duration) {
		a.set(by)
		a.set(by)
		a.kill(func() { a.Step(-by); a.Pass(passes) })
	},
	"while the machine is suspended": func(a *aging, by, passes time.Duration) {
		a.Suspend(passes)
		a.set(by)
		a.restart(func() {})
	},
}

// TestClockIsSet sets the time of day at different moments: nothing expires early or late.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"an hour back": -time.Hour, "400 days back": -400 * days, "400 days forward": 400 * days} {
		for when, fault := range clockFaults {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				a := newAging(t)
				a.createExpiring()
				fault(a, by, 4*time.Minute)
				a.wantAged(4 * time.Minute)
				a.pass(2 * time.Minute)
				a.wantAged(6 * time.Minute)
				a.pass(10 * time.Minute)
				a.wantAged(16 * time.Minute)
				a.wantLeft(14 * 60)
				a.pass(15 * time.Minute)
				if _, kept := a.broker.engine.RetainedOf("retained"); kept || len(a.broker.bans.List()) > 0 {
					t.Error("what has expired is still there")
				}
			})
		}
	}
}

// TestClockShown: times are shown as the machine's clock would have shown them, however it
// was set since.
func TestClockShown(t *testing.T) {
	t.Parallel()
	a := newAging(t)
	a.createExpiring()
	a.set(-400 * days)
	wall := a.Sources().Wall().UnixMilli()
	c, err := a.broker.InspectClient(t.Context(), "sleeper")
	if err != nil || c.LastConnect != wall || *c.LastDisconnect != wall {
		t.Errorf("the client is shown as %+v (%v), want times of %d", c, err, wall)
	}
	r, err := a.broker.GetRetained(t.Context(), "retained")
	if err != nil || r.PublishedAt.UnixMilli() != wall || r.ExpiresAt.UnixMilli() != wall+1800_000 {
		t.Errorf("the retained message is shown as %+v (%v), want times of %d", r, err, wall)
	}
	bans, err := a.broker.ListBans(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for ban := range bans.Items {
		if at := ban.ExpiresAt.UnixMilli(); at != wall+1200_000 {
			t.Errorf("the ban is shown to end at %d, want %d", at, wall+1200_000)
		}
	}
}

// TestBanUntilADate: such a ban ends by the time of day, because that is what a date is.
func TestBanUntilADate(t *testing.T) {
	t.Parallel()
	a := newAging(t)
	a.broker.now, a.broker.bans = a.Sources().Wall, nil
	var err error
	a.broker.bans, err = limits.OpenBans(t.Context(), a.broker.control, limits.Clocks{Wall: a.Sources().Wall, Service: a.broker.timeline.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.broker.AddBan(t.Context(), broker.BanSpec{Kind: broker.BanClientID, Value: "c", ExpiresAt: a.Sources().Wall().Add(days)}); err != nil {
		t.Fatal(err)
	}
	if a.set(23 * time.Hour); len(a.broker.bans.List()) != 1 {
		t.Error("the ban ended too early")
	}
	if a.set(2 * time.Hour); len(a.broker.bans.List()) != 0 {
		t.Error("the ban has not ended")
	}
}

// kept keeps the messages it receives.
type kept chan messaging.Message

func (kept) Keeps() bool { return false }

func (k kept) Take(m messaging.Message, _ messaging.CommitNotifier) { k <- m }

// TestClockOfStreamsAndBridges: messages to and from streams and bridges have times of the
// process's clock, which is not the database's after the time of day was set.
func TestClockOfStreamsAndBridges(t *testing.T) {
	t.Parallel()
	a := newAging(t)
	a.restart(func() { a.Step(-400 * days) })
	m, in := a.broker.messaging(), make(kept, 1)
	defer m.Subscribe("a", in)()
	d := join(t, a.broker, 5, as(adminName, adminPassword))
	d.Subscribe(0, "b")
	p := d.Message("a", "x", 1, false)
	p.Properties.MessageExpiry = 100
	d.Send(p)
	d.Want(packet.Puback)
	now := a.clock.Now().UnixMilli()
	if got := <-in; got.At != now || got.ExpiresAt != now+100_000 {
		t.Errorf("the message arrived at %d and expires at %d, want %d and 100 s later", got.At, got.ExpiresAt, now)
	}
	if _, refused, err := m.Publish(t.Context(), []messaging.Message{{Topic: "b", At: now, ExpiresAt: now + 70_000}}); refused > 0 || err != nil {
		t.Fatalf("%d refused, %v", refused, err)
	}
	if got := d.Want(packet.Publish).Properties.MessageExpiry; got != 70 {
		t.Errorf("the message has %d s left, want 70", got)
	}
}
