package systemtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/mqtt/dial"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/loadtest"
	"signalbox/scripts/suite"
)

// sequence changes a service: each client is created after its role, and each message after the
// one before it.
type sequence struct {
	clients, messages written
	ends              atomic.Bool
	running           sync.WaitGroup
}

// written counts what was sent and what was acknowledged.
type written struct{ sent, acknowledged atomic.Int64 }

// startSequence starts to change a service, whose first administrators are those of configured.
func startSequence(t *testing.T, p *service) *sequence {
	t.Helper()
	l, r, d := &sequence{}, root(t, p), mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	l.running.Go(func() {
		l.until(&l.clients, func(i int64) bool {
			return r.status(t, "POST", r.at("/roles"), object{"rolename": fmt.Sprint("r-", i)}) < 300 &&
				r.status(t, "POST", r.at("/clients"), object{"username": fmt.Sprint("c-", i), "password": "secret", "roles": []object{{"rolename": fmt.Sprint("r-", i)}}}) < 300
		})
	})
	l.running.Go(func() {
		l.until(&l.messages, func(i int64) bool {
			token := d.Publish(fmt.Sprint("load/", i), 1, true, fmt.Sprint(i))
			return token.Wait() && token.Error() == nil
		})
	})
	return l
}

func (l *sequence) until(w *written, change func(i int64) bool) {
	for i := int64(1); !l.ends.Load(); i++ {
		w.sent.Store(i)
		if !change(i) {
			return
		}
		w.acknowledged.Store(i)
	}
}

// startLoad publishes a number of messages a second, in addition to a sequence, which a subscriber
// receives, until end is called.
func startLoad(t *testing.T, p *service, rate int) (end func() *loadtest.Result) {
	t.Helper()
	endpoint, err := dial.Parse("mqtt://" + p.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var result *loadtest.Result
	done := make(chan error)
	go func() {
		var err error
		result, err = loadtest.Run(ctx, loadtest.Options{
			Endpoint: endpoint, Username: mqttAdmin, Password: mqttPassword, ClientID: "beside-", Topic: "beside", Publishers: 20, Subscribers: 1,
			Rate: float64(rate), QoS: 1, Size: 100, Window: 1000, Duration: time.Hour, Patience: suite.HangLimit,
		})
		done <- err
	}()
	return func() *loadtest.Result {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// TestCampaignBackupUnderLoad makes backups while the service is changed, and restores each to
// an empty directory: it has all that was acknowledged before, nothing that was sent after, and
// no object without those before it.
func TestCampaignBackupUnderLoad(t *testing.T) {
	dir, env := dataDir(t), configured(nil)
	p := serve(t, dir, env)
	l := startSequence(t, p)
	endLoad := startLoad(t, p, suite.FromEnvironment(t, "SIGNALBOX_TEST_RATE", 300))
	rounds := suite.FromEnvironment(t, "SIGNALBOX_TEST_BACKUPS", 10)
	for round := range rounds {
		least := [2]int64{l.clients.acknowledged.Load(), l.messages.acknowledged.Load()}
		temp := t.TempDir()
		file, restored := filepath.Join(temp, "backup"), filepath.Join(temp, "data")
		if got := command(t, env.environ(dir), "backup", "create", file); got.code != 0 {
			t.Fatalf("round %d: %+v", round, got)
		}
		most := [2]int64{l.clients.sent.Load(), l.messages.sent.Load()}
		if got := command(t, env.environ(restored), "restore", file); got.code != 0 {
			t.Fatalf("round %d: %+v", round, got)
		}
		for i, n := range [2]int64{completeClients(t, env.environ(restored)), completeMessages(t, restored)} {
			if n < least[i] || n > most[i] {
				t.Errorf("round %d: %d %s, want %d to %d", round, n, [2]string{"clients", "messages"}[i], least[i], most[i])
			}
		}
		removeAll(t, filepath.Join(temp, "*"))
	}
	l.ends.Store(true)
	l.running.Wait()
	load := endLoad()
	if load.Lost() > 0 || load.GivenUp > 0 || load.Refused > 0 {
		t.Errorf("of %d messages beside the backups %d were lost, %d were not acknowledged, %d were refused", load.Published, load.Lost(), load.GivenUp, load.Refused)
	}
	t.Logf("%d backups during %d clients, %d retained messages and %.0f others a second", rounds,
		l.clients.acknowledged.Load(), l.messages.acknowledged.Load(), float64(load.Published)/load.Took.Seconds())
	p.stop(t)
}

// completeClients returns the number of clients of a sequence in a data directory. None is missing,
// and each has its role.
func completeClients(t *testing.T, env []string) (n int64) {
	t.Helper()
	var all struct {
		Clients []struct {
			Username string
			Roles    []struct{ Rolename string }
		}
		Roles []struct{ Rolename string }
	}
	got := command(t, env, "export", "dynsec", "-")
	if got.code != 0 || json.Unmarshal([]byte(got.stdout), &all) != nil {
		t.Fatalf("export: %+v", got)
	}
	roles, found := map[string]bool{}, map[string]bool{}
	for _, r := range all.Roles {
		roles[r.Rolename] = true
	}
	for _, c := range all.Clients {
		found[c.Username] = len(c.Roles) == 1 && roles[c.Roles[0].Rolename]
	}
	for found[fmt.Sprint("c-", n+1)] {
		n++
	}
	if int(n)+1 != len(all.Clients) { // with the administrator
		t.Errorf("%d clients, of which the first %d are complete", len(all.Clients)-1, n)
	}
	return n
}

// completeMessages returns the number of retained messages of a sequence in a data directory. None
// is missing.
func completeMessages(t *testing.T, dir string) (n int64) {
	t.Helper()
	d, err := sql.Open("sqlite", filepath.Join(dir, "broker.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var last int64
	const query = `SELECT count(*), coalesce(max(CAST(substr(topic, 6) AS INTEGER)), 0) FROM message WHERE retained <> 0 AND topic LIKE 'load/%'`
	if err := d.QueryRowContext(t.Context(), query).Scan(&n, &last); err != nil {
		t.Fatal(err)
	}
	if n != last {
		t.Errorf("%d messages, the last one is number %d", n, last)
	}
	return n
}
