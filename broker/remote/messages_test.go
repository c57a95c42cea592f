package remote

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// publish publishes retained messages; topics and payloads alternate.
func publish(t *testing.T, b *Broker, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		spec := broker.PublishSpec{Topic: pairs[i], Payload: []byte(pairs[i+1]), QoS: i / 2 % 3, Retain: true}
		if err := b.Publish(t.Context(), spec); err != nil {
			t.Fatalf("Publish(%+v) = %v", spec, err)
		}
	}
}

// retainedTopics returns the topics of a page of the retained messages.
func retainedTopics(t *testing.T, b *Broker, filter string, offset, count int) (total int, topics []string) {
	t.Helper()
	page, err := b.ListRetained(t.Context(), filter, offset, count)
	if err != nil {
		t.Fatalf("ListRetained(%q) = %v", filter, err)
	}
	for m, err := range page.Items {
		if err != nil {
			t.Fatal(err)
		}
		topics = append(topics, m.Topic)
	}
	return page.Total, topics
}

func TestRetained(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t).Target())
	long := strings.Repeat("é", broker.PreviewLimit)
	publish(t, b, "plant/b", "2", "plant/a", "1", "plant/long", long, "else", "\xff\x00", "plant/c", "3")

	for _, c := range []struct {
		filter        string
		offset, count int
		total         int
		want          []string
	}{
		{"plant/+", 0, -1, 4, []string{"plant/a", "plant/b", "plant/c", "plant/long"}},
		{"plant/+", 1, 2, 4, []string{"plant/b", "plant/c"}},
		{"#", 3, 10, 5, []string{"plant/c", "plant/long"}},
		{"plant/#", 9, 1, 4, nil},
		{"plant/#", 0, 0, 4, nil},
		{"nothing/#", 0, -1, 0, nil},
	} {
		total, topics := retainedTopics(t, b, c.filter, c.offset, c.count)
		if total != c.total || !slices.Equal(topics, c.want) {
			t.Errorf("%q, offset %d, count %d: got %d, %q, want %d, %q", c.filter, c.offset, c.count, total, topics, c.total, c.want)
		}
	}
	if m, err := b.GetRetained(t.Context(), "plant/long"); err != nil || m.Payload != long || m.Truncated || m.Size != len(long) {
		t.Errorf("GetRetained: %d bytes shown of %d, %v", len(m.Payload), m.Size, err)
	}
	if m, err := b.GetRetained(t.Context(), "else"); err != nil || m.Payload != "/wA=" || m.Encoding != "base64" {
		t.Errorf("GetRetained of no text: %+v, %v", m, err)
	}
	page, err := b.ListRetained(t.Context(), "plant/long", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for m := range page.Items {
		if len(m.Payload) != broker.PreviewLimit || !m.Truncated || m.Size != len(long) {
			t.Errorf("in a list: %d bytes shown of %d, truncated %v", len(m.Payload), m.Size, m.Truncated)
		}
	}
}

func TestDeleteRetained(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t).Target())
	publish(t, b, "a/1", "1", "a/2", "2", "b", "3")
	if err := b.DeleteRetained(t.Context(), "a/1"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, b.DeleteRetained(t.Context(), "a/1"), broker.NotFound)
	_, err := b.GetRetained(t.Context(), "a/1")
	wantKind(t, err, broker.NotFound)
	publish(t, b, "a/3", "3")
	if n, err := b.DeleteRetainedMatching(t.Context(), "a/#"); n != 2 || err != nil {
		t.Errorf("DeleteRetainedMatching() = %d, %v, want 2", n, err)
	}
	if n, err := b.DeleteRetainedMatching(t.Context(), "a/#"); n != 0 || err != nil {
		t.Errorf("DeleteRetainedMatching() again = %d, %v, want 0", n, err)
	}
	if _, topics := retainedTopics(t, b, "#", 0, -1); !slices.Equal(topics, []string{"b"}) {
		t.Errorf("left: %q", topics)
	}
}

// TestDeleteRetained_that_takes_time waits for a broker that clears after it has
// acknowledged, as NATS does.
func TestDeleteRetained_that_takes_time(t *testing.T) {
	t.Parallel()
	server := scripted{answers: rich, showsOn: 3, retains: []*packets.PublishPacket{message("a", true)}}
	b := connected(t, server.serve(t))
	b.timing.clearTimeout = suite.HangLimit
	if err := b.DeleteRetained(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// TestRetained_all_of_many checks that no message is lost: limits of queued messages do
// not apply to QoS 0.
func TestRetained_all_of_many(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	b := connected(t, server.Target())
	const many = 5000
	for i := range many {
		if err := b.Publish(t.Context(), broker.PublishSpec{Topic: fmt.Sprintf("m/%05d", i), Payload: []byte("x"), Retain: true}); err != nil {
			t.Fatal(err)
		}
	}
	total, topics := retainedTopics(t, b, "m/#", many-1, 1)
	if total != many || !slices.Equal(topics, []string{fmt.Sprintf("m/%05d", many-1)}) {
		t.Errorf("got %d, the last is %q, want %d", total, topics, many)
	}
}

// TestRetained_shows_what_was_just_published, also if the broker has not processed it
// yet: the list is read on another connection.
func TestRetained_shows_what_was_just_published(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: rich, slow: true}).serve(t))
	publish(t, b, "a", "1")
	if total, topics := retainedTopics(t, b, "#", 0, -1); total != 1 || !slices.Equal(topics, []string{"a"}) {
		t.Errorf("got %d, %q", total, topics)
	}
}

func TestRetained_passes_over_live_messages(t *testing.T) {
	t.Parallel()
	server := scripted{answers: rich, retains: []*packets.PublishPacket{message("b", true), message("live", false), message("a", true)}}
	b := connected(t, server.serve(t))
	if total, topics := retainedTopics(t, b, "#", 0, -1); total != 2 || !slices.Equal(topics, []string{"a", "b"}) {
		t.Errorf("got %d, %q", total, topics)
	}
}

// TestRetained_that_a_broker_drops is an error and not an incomplete list, and names
// the remedy.
func TestRetained_that_a_broker_drops(t *testing.T) {
	t.Parallel()
	server := scripted{answers: rich, drops: true, retains: []*packets.PublishPacket{message("a", true)}}
	b := connected(t, server.serve(t))
	b.timing.responseTimeout = 200 * time.Millisecond // which may be over before the request is sent
	brokertest.WaitFor(t, "the error names the filter and the setting", func() bool {
		_, err := b.ListRetained(t.Context(), "#", 0, -1)
		if err == nil {
			t.Fatal("got a list")
		}
		return strings.Contains(err.Error(), "narrower filter") && strings.Contains(err.Error(), "max_queued_messages")
	})
}

func TestRetained_is_bounded(t *testing.T) {
	t.Parallel()
	server := scripted{answers: rich}
	for i := range maxRetained + 1 {
		server.retains = append(server.retains, message(fmt.Sprint(i), true))
	}
	b := connected(t, server.serve(t))
	_, err := b.ListRetained(t.Context(), "#", 0, 1)
	if e := wantKind(t, err, broker.Invalid); !strings.Contains(e.Msg, "narrower") {
		t.Errorf("no advice: %v", e)
	}
	if _, err := b.GetRetained(t.Context(), "#"); broker.KindOf(err) != broker.Invalid {
		t.Errorf("after one that ended early: %v", err)
	}
}

// restricted connects to a broker as its admin, and as a client that may do everything
// except as these ACLs state.
func restricted(t *testing.T, acls ...broker.ACL) (admin, b *Broker) {
	t.Helper()
	server := brokertest.Mosquitto(t)
	admin = connected(t, server.Target())
	password := broker.Secret("pw")
	must(t, admin.CreateRole(t.Context(), broker.RoleSpec{RoleName: "except", ACLs: acls}))
	must(t, admin.CreateRole(t.Context(), broker.RoleSpec{RoleName: "everything", ACLs: brokertest.AdminRole("").ACLs}))
	must(t, admin.CreateClient(t.Context(), broker.ClientSpec{Username: "u", Password: &password,
		Roles: []broker.RoleRef{{RoleName: "except", Priority: 1}, {RoleName: "everything"}}}))
	target := server.Target()
	target.Username, target.Password = "u", password
	return admin, connected(t, target)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeleteRetained_that_rights_forbid_is_said(t *testing.T) {
	t.Parallel()
	admin, b := restricted(t, broker.ACL{ACLType: broker.PublishClientSend, Topic: "mine/#"}, broker.ACL{ACLType: broker.SubscribePattern, Topic: "hidden/#"})
	publish(t, admin, "mine/1", "1", "hidden/1", "1")
	wantKind(t, b.DeleteRetained(t.Context(), "mine/1"), broker.Denied)
	_, err := b.ListRetained(t.Context(), "hidden/#", 0, -1)
	if e := wantKind(t, err, broker.Denied); !strings.Contains(e.Msg, "hidden/#") {
		t.Errorf("the filter is not named: %v", e)
	}
	if _, err := admin.GetRetained(t.Context(), "mine/1"); err != nil {
		t.Errorf("what was not to be deleted: %v", err)
	}
}

func TestPublish_refuses_what_MQTT_311_cannot_carry(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: rich}).serve(t))
	expiry := uint32(5)
	for name, spec := range map[string]broker.PublishSpec{
		"expiry": {Topic: "a", Expiry: &expiry}, "content type": {Topic: "a", ContentType: "text/plain"},
		"response topic": {Topic: "a", ResponseTopic: "b"}, "correlation data": {Topic: "a", CorrelationData: []byte("x")},
		"user property": {Topic: "a", UserProperties: []broker.UserProperty{{Name: "k"}}},
	} {
		if err := b.Publish(t.Context(), spec); broker.KindOf(err) != broker.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMessages_of_an_unreachable_broker(t *testing.T) {
	t.Parallel()
	server, proxy, b := behind(t)
	must(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "a", Payload: []byte("1"), QoS: 1, Retain: true}))
	struck := proxy.CutBefore(brokertest.Publish)
	err := b.Publish(t.Context(), broker.PublishSpec{Topic: "a", Payload: []byte("2"), QoS: 1, Retain: true})
	<-struck
	wantKind(t, err, broker.Unconfirmed)
	proxy.Pass()
	brokertest.WaitFor(t, "the broker is connected again", func() bool { return b.Ready(t.Context()) == nil })
	if m, err := b.GetRetained(t.Context(), "a"); err != nil || m.Payload != "1" {
		t.Errorf("got %+v, %v, want what was there before", m, err)
	}
	server.Stop(t)
	brokertest.WaitFor(t, "the broker is known to be gone", func() bool { return b.Status().Error != "" && !b.Status().Connected })
	wantKind(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "a"}), broker.Unavailable)
	_, err = b.ListRetained(t.Context(), "#", 0, -1)
	wantKind(t, err, broker.Unavailable)
}
