package systemtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// clientsOfRehearsal is the variable with the number of clients of access control.
const clientsOfRehearsal = "SIGNALBOX_REHEARSAL_CLIENTS"

// The size of the service that is rehearsed with, and the rate at which messages are published
// to it: two publishers, some messages every 10 ms each.
const (
	rehearsalStreams  = 200
	rehearsalBridges  = 20
	rehearsalRetained = 1000
	rehearsalOnTick   = 5
)

// TestCampaignRehearsal rehearses, on a large service and while messages are published, what an
// operator hopes never to need: a backup is made and verified, the data is damaged and restored;
// then the program is upgraded, and rolled back. Each time all objects are compared one by one
// with those before, and each message that was acknowledged in time is in its stream and in the
// queue of its bridge.
func TestCampaignRehearsal(t *testing.T) {
	t.Parallel()
	r := newRehearsal(t)
	r.backUpAndRestore(t)
	r.upgradeAndRollBack(t)
}

// rehearsal is a site whose bridges lead to a server that is usually unreachable.
type rehearsal struct {
	*upgradeSite
	publisher endpoint
	target    string // address of the server
	made      populated
	before    map[string]int // all objects, as records returns them
	streams   map[string]int // the last number of each topic that streams have, of earlier phases
}

func newRehearsal(t *testing.T) *rehearsal {
	t.Helper()
	clients := suite.FromEnvironment(t, clientsOfRehearsal, 100_000)
	r := &rehearsal{target: brokertest.FreePort(t, suite.Host()), streams: map[string]int{}}
	timed(t, "both versions are built", func() { r.upgradeSite = newUpgradeSite(t) })
	r.publisher = endpoint{r.mqtt, "plant", "secret"}
	timed(t, fmt.Sprint(clients, " clients are imported"), func() {
		wantImported(t, r.command(t, "import", "dynsec", writeManyClients(t, clients)), fmt.Sprintf("imported %d clients", clients))
	})
	timed(t, "the service starts with them", func() { r.start(t) })
	timed(t, "everything else is created", func() { r.fill(t) })
	r.before = r.records(t)
	return r
}

// fill creates what is not imported: an object of each kind, streams, bridges, and retained messages.
func (r *rehearsal) fill(t *testing.T) {
	t.Helper()
	r.made = r.api.populate(t)
	r.api.createClient(t, r.publisher)
	r.api.must(t, "POST", r.api.at("/roles"), object{"rolename": replayReader, "acls": []object{
		{"acltype": "subscribePattern", "topic": "replay/#", "priority": 0, "allow": true},
		{"acltype": "publishClientReceive", "topic": "replay/#", "priority": 0, "allow": true}}}, nil)
	r.api.must(t, "POST", r.api.at("/clients"), object{"username": replayReader, "password": passwordOf(replayReader),
		"roles": []object{{"rolename": replayReader}}}, nil)
	for i := range rehearsalStreams {
		r.api.must(t, "POST", r.api.at("/streams"), object{"streamname": streamName(i), "sourcetopic": fmt.Sprint("plant/+/", i), "persist": true}, nil)
	}
	r.api.must(t, "PUT", r.api.at("/bridges/http-bridge/config"), r.bridges(), nil)
	r.api.retain(t, r.mqtt, rehearsalRetained)
}

func streamName(i int) string { return fmt.Sprint("stream-", i) }

// bridges returns the configuration of connections to the server, each of which takes the topics of some
// streams. Their attempts are few, because most of them fail.
func (r *rehearsal) bridges() (document object) {
	var all []object
	for i := range rehearsalBridges {
		var topics []string
		for k := i; k < rehearsalStreams; k += rehearsalBridges {
			topics = append(topics, fmt.Sprint("plant/+/", k))
		}
		document = connectTo(object{"url": "http://" + r.target}, object{"concurrency": 8}, object{"target": "/messages", "mqttTopics": topics}, numbers("id"))
		one := document["connections"].([]object)[0]
		one["name"] = fmt.Sprint("bridge-", i)
		one["options"].(object)["retryMaxInsertDelay"] = 2000
		all = append(all, one)
	}
	document["connections"] = all
	return document
}

// publish starts to publish to a topic of each stream, which is of a phase, and waits until each
// stream has some messages.
func (r *rehearsal) publish(t *testing.T, phase string) *publishers {
	t.Helper()
	topics := make([][]string, publisherCount)
	for i := range rehearsalStreams {
		topics[i%publisherCount] = append(topics[i%publisherCount], fmt.Sprintf("plant/%s/%d", phase, i))
	}
	p := publishTo(t, r.publisher, rehearsalOnTick, topics...)
	suite.WaitFor(t, "all streams have messages", func() bool { return p.acknowledged() >= 20*rehearsalStreams })
	return p
}

// backUpAndRestore damages the data after a backup, and restores it in one command.
func (r *rehearsal) backUpAndRestore(t *testing.T) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	folder, session := t.TempDir(), r.api
	key, file := filepath.Join(folder, "key"), filepath.Join(folder, "backup")
	write(t, key, identity.String()+"\n")
	p := r.publish(t, "backup")
	acknowledged := p.last()
	timed(t, "a backup is made under load", func() {
		r.must(t, "backup", "create", "--with-key", "--recipient", identity.Recipient().String(), file)
	})
	atMost := notBeyond(p.last())
	timed(t, "it is verified under load", func() { r.must(t, "backup", "verify", "--identity", key, file) })
	r.run.Kill()
	p.stop()
	t.Logf("%d messages were acknowledged; backup: %d bytes", p.acknowledged(), size(t, file))

	destroy(t, r.dir)
	if got := r.command(t, "serve"); got.code != 1 || !strings.Contains(got.stderr, "broker.db is damaged") || !strings.Contains(got.stderr, "streams.db is not") {
		t.Errorf("start with damaged data: %+v", got)
	}
	timed(t, "it is restored", func() { r.must(t, "restore", "--identity", key, file) })
	timed(t, "the service starts again", func() { r.start(t) })
	session.url = r.run.API
	session.must(t, "GET", "/api/auth/me", nil, nil)
	timed(t, "all objects are compared", func() { r.wantRecords(t) })
	timed(t, "all streams are compared", func() { r.streams = r.wantInStreams(t, acknowledged, atMost) })
	timed(t, "all queues are compared", func() { r.wantInQueues(t, acknowledged, atMost) })
}

// upgradeAndRollBack upgrades while messages are published: nothing that was acknowledged is lost.
// It then rolls back to the state before the upgrade.
func (r *rehearsal) upgradeAndRollBack(t *testing.T) {
	t.Helper()
	p := r.publish(t, "upgrade")
	r.wantFewSeries(t)
	acknowledged := p.last()
	timed(t, "an upgrade under load", func() { r.must(t, "upgrade", r.next) })
	atMost := notBeyond(p.last())
	timed(t, "the service restarts as v1.0.1", func() { r.restart(t, "v1.0.1") })
	all := p.finish(t, p.acknowledged()+10*rehearsalStreams)
	r.wantRecords(t)
	r.wantInStreams(t, plus(r.streams, all), plus(r.streams, all))
	r.wantInQueues(t, all, all)

	r.api.must(t, "POST", r.api.at("/clients"), object{"username": "later", "password": passwordOf("later")}, nil)
	timed(t, "the rollback, with the restart", func() { r.rollBack(t) })
	if got := r.command(t, "upgrade", "status"); !strings.Contains(got.stdout, "service runs  v1.0.0 ") {
		t.Errorf("status: %+v", got)
	}
	r.wantRecords(t)
	r.wantInStreams(t, plus(r.streams, acknowledged), plus(r.streams, atMost))
	r.wantInQueues(t, acknowledged, atMost)
	r.run.stop(t)
}

// maxSeries is how many series a service may have for Prometheus beside those of streams and of
// connections of bridges, which have some each.
const maxSeries = 2000

// perObject matches series of a stream or of a connection of a bridge.
var perObject = regexp.MustCompile(`[{,](stream|connection)="`)

// wantFewSeries checks that no series belongs to a client or a topic.
func (r *rehearsal) wantFewSeries(t *testing.T) {
	t.Helper()
	status, text, err := r.api.do(t.Context(), "GET", "/metrics", nil)
	if err != nil || status != 200 {
		t.Fatalf("/metrics: %d, %v", status, err)
	}
	all, others := 0, 0
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "#"):
		case perObject.MatchString(line):
			all++
		default:
			all, others = all+1, others+1
		}
	}
	t.Logf("%d series, %d of them of neither a stream nor a connection", all, others)
	if others < 100 || others > maxSeries || all > maxSeries+12*(rehearsalStreams+rehearsalBridges) {
		t.Errorf("/metrics has %d series, and %d of neither a stream nor a connection", all, others)
	}
}

// must runs a command of the program that is installed, which must succeed.
func (r *rehearsal) must(t *testing.T, args ...string) {
	t.Helper()
	if got := r.command(t, args...); got.code != 0 {
		t.Fatalf("%q: %+v", args, got)
	}
}

// destroy damages the databases, each in another way, and the key.
func destroy(t *testing.T, dir string) {
	t.Helper()
	removeAll(t, filepath.Join(dir, "*-wal"))
	removeAll(t, filepath.Join(dir, "*-shm"))
	removeAll(t, filepath.Join(dir, "secret.key"))
	removeAll(t, filepath.Join(dir, "bridges.db"))
	write(t, filepath.Join(dir, "signalbox.db"), "")
	write(t, filepath.Join(dir, "streams.db"), strings.Repeat("damaged ", 1<<13))
	if err := os.Truncate(filepath.Join(dir, "broker.db"), size(t, filepath.Join(dir, "broker.db"))/2); err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// timed logs how long a step takes.
func timed(t *testing.T, what string, step func()) {
	t.Helper()
	began := time.Now()
	step()
	t.Logf("%v: %s", since(began), what)
}

// notBeyond returns the last number of each topic that can have been sent when these were
// acknowledged.
func notBeyond(acknowledged map[string]int) map[string]int {
	most := map[string]int{}
	for topic, n := range acknowledged {
		most[topic] = n + underWay
	}
	return most
}

// plus returns both, of different topics.
func plus(a, b map[string]int) map[string]int {
	sum := maps.Clone(a)
	maps.Copy(sum, b)
	return sum
}

// replayReader is the client that receives the replays of streams.
const replayReader = "replay-reader"

// wantInStreams replays all streams. Each has the messages of its topics from the first one to at
// least one and at most another. It returns the last ones.
func (r *rehearsal) wantInStreams(t *testing.T, least, most map[string]int) (last map[string]int) {
	t.Helper()
	reader := mqtttest.Dial(t, "mqtt://"+r.mqtt, nil, 4)
	reader.Connect(mqtttest.WithID(replayReader), mqtttest.As(replayReader, passwordOf(replayReader)), mqtttest.KeepAlive(0))
	defer reader.Disconnect()
	reader.Subscribe(1, "replay/#")
	var list []arrival
	defer func() { last = wantWithin(t, "the streams", list, least, most) }() // also where a wait ends the test
	for i := range rehearsalStreams {
		var kept struct{ Count int }
		r.api.must(t, "GET", r.api.at("/streams/messages/count?streamname="+streamName(i)), nil, &kept)
		r.api.must(t, "PUT", r.api.at("/streams/replay"), object{"streamname": streamName(i), "replayTopic": "replay/" + streamName(i), "speed": 0}, nil)
		for range kept.Count {
			m := reader.Want(packet.Publish)
			reader.Acknowledge(packet.Puback, m.ID)
			a := readArrival(m.Payload)
			if m.Topic != "replay/"+streamName(i) || !strings.HasSuffix(a.Topic, fmt.Sprint("/", i)) {
				t.Fatalf("the replay of %s has %q of %s", streamName(i), m.Payload, m.Topic)
			}
			list = append(list, a)
		}
	}
	return last
}
