package sys_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/sys"
	"signalbox/scripts/suite"
)

// rig is a tree with a reading and a time that tests change.
type rig struct {
	*sys.Tree
	reading sys.Reading
	now     time.Time
}

func (r *rig) Read() sys.Reading { return r.reading }

func newRig(reading sys.Reading) *rig {
	r := &rig{reading: reading, now: time.UnixMilli(5_000_000)}
	r.Tree = sys.New(sys.Options{Source: r, Version: "1.2.3", Now: func() time.Time { return r.now }})
	return r
}

// sampleAfter lets time pass and takes a sample.
func (r *rig) sampleAfter(d time.Duration) []sys.Topic {
	r.now = r.now.Add(d)
	return r.Sample()
}

// everything returns a reading with distinct values.
func everything() sys.Reading {
	return sys.Reading{
		Counts: engine.Counts{
			PacketsReceived: 1, PacketsSent: 2, PublishesReceived: 3, PublishesSent: 4, PayloadReceived: 5, PayloadSent: 6,
			BytesReceived: 7, BytesSent: 8, Dropped: map[engine.DropReason]int64{engine.DropQueueFull: 9, engine.DropExpired: 10},
			QuotaRefused:  map[engine.QuotaReason]int64{engine.QuotaSessions: 41},
			Subscriptions: 31, Shared: 12, Connections: 13, Refused: 14, Left: 39, Connected: 15, Maximum: 16, Sessions: 38,
			Expired: 18, Retained: 20, Queued: 21, QueuedBytes: 22,
		},
		WireReceived: 24, WireSent: 25, Accepted: 26, Lost: map[string]int64{"TLS": 27, "ban": 28}, Open: 29, HalfOpen: 30, LoginBytes: 40,
		Stored: 32, StoredBytes: 33, NotTracked: 34, StoreFails: true,
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	r := newRig(everything())
	r.now = r.now.Add(time.Hour + 2500*time.Millisecond)
	got := r.Figures()
	if got.Date != 8_602_500 {
		t.Errorf("date %d", got.Date)
	}
	want := map[string]string{
		"version": "signalbox version 1.2.3", "uptime": "3602 seconds",
		"clients/total": "38", "clients/connected": "15", "clients/active": "15", "clients/disconnected": "23",
		"clients/inactive": "23", "clients/maximum": "16", "clients/expired": "18",
		"subscriptions/count": "19", "shared_subscriptions/count": "12",
		"messages/received": "1", "messages/sent": "2", "messages/stored": "32",
		"publish/messages/received": "3", "publish/messages/sent": "4", "publish/messages/dropped": "19",
		"store/messages/count": "32", "store/messages/bytes": "33", "retained messages/count": "20",
		"bytes/received": "24", "bytes/sent": "25", "publish/bytes/received": "5", "publish/bytes/sent": "6",
	}
	for topic, value := range got.Topics {
		name, ok := strings.CutPrefix(topic, "$SYS/broker/")
		heap := strings.HasPrefix(name, "heap/")
		if n, _ := strconv.Atoi(value); !ok || heap && n == 0 {
			t.Errorf("%s is %s", topic, value)
		}
		if load := strings.HasPrefix(name, "load/"); load && value != "0.00" || !heap && !load && value != want[name] {
			t.Errorf("%s is %s, want %s", topic, value, want[name])
		}
	}
	if len(got.Topics) != len(want)+2+27 {
		t.Errorf("%d topics", len(got.Topics))
	}
}

func TestVersionThatIsNotKnown(t *testing.T) {
	t.Parallel()
	tree := sys.New(sys.Options{Source: &rig{}})
	if got := tree.Figures().Topics; got["$SYS/broker/version"] != "signalbox" || got["$SYS/broker/uptime"] != "0 seconds" {
		t.Errorf("version %q, uptime %q", got["$SYS/broker/version"], got["$SYS/broker/uptime"])
	}
}

func TestOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	r := newRig(everything())
	first := r.Sample()
	if len(first) != len(r.Figures().Topics) || !slices.IsSortedFunc(first, func(a, b sys.Topic) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("the first sample gives %d topics: %v", len(first), first)
	}
	r.reading.Retained++
	changed := slices.DeleteFunc(r.sampleAfter(10*time.Second), func(topic sys.Topic) bool { // the test does not control it
		return strings.HasPrefix(topic.Name, "$SYS/broker/heap/")
	})
	want := []sys.Topic{{"$SYS/broker/retained messages/count", "21"}, {"$SYS/broker/uptime", "10 seconds"}}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLoads follows bursts of 600. By Mosquitto's formula a growth of g per minute adds
// g·(1−e^(−t/span)) in t minutes, and e^(−t/span) of the earlier average is left.
func TestLoads(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]func(*sys.Reading) *int64{
		"messages/received": func(r *sys.Reading) *int64 { return &r.PacketsReceived },
		"messages/sent":     func(r *sys.Reading) *int64 { return &r.PacketsSent },
		"publish/received":  func(r *sys.Reading) *int64 { return &r.PublishesReceived },
		"publish/sent":      func(r *sys.Reading) *int64 { return &r.PublishesSent },
		"bytes/received":    func(r *sys.Reading) *int64 { return &r.WireReceived },
		"bytes/sent":        func(r *sys.Reading) *int64 { return &r.WireSent },
		"sockets":           func(r *sys.Reading) *int64 { return &r.Accepted },
		"connections":       func(r *sys.Reading) *int64 { return &r.Connections },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(everything())
			r.Sample()
			r.wantLoads(t, name, "0.00", "0.00", "0.00")
			*count(&r.reading) += 600
			r.sampleAfter(10 * time.Second)
			r.wantLoads(t, name, "552.67", "118.02", "39.78")
			r.sampleAfter(60 * time.Second)
			r.wantLoads(t, name, "203.31", "96.63", "37.21")
			*count(&r.reading) += 600
			r.sampleAfter(20 * time.Second) // one sample was missed
			r.wantLoads(t, name, "655.92", "206.48", "75.95")
			r.sampleAfter(0)
			r.wantLoads(t, name, "655.92", "206.48", "75.95")
		})
	}
	t.Run("publish/dropped", func(t *testing.T) {
		t.Parallel()
		r := newRig(everything())
		r.Sample()
		r.reading.Dropped = map[engine.DropReason]int64{engine.DropQueueFull: 109, engine.DropExpired: 510}
		r.sampleAfter(10 * time.Second)
		r.wantLoads(t, "publish/dropped", "552.67", "118.02", "39.78")
	})
}

func (r *rig) wantLoads(t *testing.T, name string, want ...string) {
	t.Helper()
	topics := r.Figures().Topics
	var got []string
	for _, span := range []string{"1min", "5min", "15min"} {
		got = append(got, topics["$SYS/broker/load/"+name+"/"+span])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for topic, value := range topics {
		if other := !strings.HasPrefix(topic, "$SYS/broker/load/"+name+"/"); other && strings.Contains(topic, "/load/") && value != "0.00" {
			t.Errorf("%s is %s", topic, value)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	r := newRig(everything())
	if got := r.History(); len(got) != 0 {
		t.Errorf("%d samples at the start", len(got))
	}
	for range sys.Kept + 5 {
		r.reading.Retained++
		r.sampleAfter(10 * time.Second)
	}
	got := r.History()
	if len(got) != sys.Kept {
		t.Fatalf("%d samples", len(got))
	}
	for i, sample := range got {
		retained := strconv.Itoa(20 + 6 + i)
		if sample.Date != 5_000_000+int64(6+i)*10_000 || sample.Topics["$SYS/broker/retained messages/count"] != retained {
			t.Errorf("sample %d is of %d", i, sample.Date)
		}
	}
}

// TestConcurrentReads reads while samples are taken, for the race detector.
func TestConcurrentReads(t *testing.T) {
	t.Parallel()
	tree := sys.New(sys.Options{Source: &rig{reading: everything()}})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 200 {
				if len(tree.Figures().Topics) == 0 || len(tree.History()) > sys.Kept {
					t.Error("nothing there, or too much")
				}
			}
		})
	}
	for range 200 {
		tree.Sample()
	}
	readers.Wait()
}

// TestNamesAreMosquittos compares the names with those of a real Mosquitto, which publishes
// its maximum of clients only after it had a client.
func TestNamesAreMosquittos(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(newRig(sys.Reading{}).Figures().Topics))
	theirs, all := map[string]bool{}, make(chan struct{})
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(brokertest.Mosquitto(t, brokertest.WithoutPlugin()).URL))
	if token := c.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer c.Disconnect(250)
	var once sync.Once
	var mu sync.Mutex
	c.Subscribe("$SYS/#", 0, func(_ mqtt.Client, m mqtt.Message) {
		mu.Lock()
		defer mu.Unlock()
		theirs[m.Topic()] = true
		if m.Topic() == "$SYS/broker/uptime" && theirs["$SYS/broker/clients/maximum"] && !m.Retained() {
			once.Do(func() { close(all) })
		}
	})
	select {
	case <-all:
	case <-time.After(suite.HangLimit):
		t.Error("Mosquitto does not tell what it can")
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(theirs)), got); diff != "" {
		t.Errorf("(-Mosquitto's +ours):\n%s", diff)
	}
}
