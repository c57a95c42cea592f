package apitest_test

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

func bansOf(api *apitest.API) (list []broker.Ban) {
	api.Root.Get(api.At("/bans")).Want(200).Decode(&list)
	return list
}

func ban(kind, value string) object {
	return object{"kind": kind, "value": value, "reason": "because"}
}

// tryAs returns the code of the CONNACK.
func tryAs(t *testing.T, api *apitest.API, id, username string) byte {
	t.Helper()
	d := connectTo(t, api.Listeners[0], nil, 5)
	defer d.Drop()
	return d.SendConnect(withID(id), user(username, "secret")).Reason
}

// TestBans checks that a ban disconnects only those it applies to, refuses them also
// after a restart, and can be lifted.
func TestBans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, withAdminPassword, apitest.In(dir))
	account(t, api, "alice")
	account(t, api, "bob")
	a1 := join(t, api, 5, "a1", user("alice", "secret"))
	a2 := join(t, api, 4, "a2", user("alice", "secret"))
	b1 := join(t, api, 5, "b1", user("bob", "secret"))
	b2 := join(t, api, 5, "b2", user("bob", "secret"))
	api.Token("editor").Post(api.At("/bans"), ban("username", "alice")).WantError(403, "FORBIDDEN")
	admin := api.Token("admin")
	admin.Post(api.At("/bans"), ban("username", "alice")).Want(204)
	a1.WantDisconnect(0x8a)
	a2.WantDisconnect(0)
	admin.Post(api.At("/bans"), ban("clientid", "b1")).Want(204)
	b1.WantDisconnect(0x8a)
	admin.Post(api.At("/bans"), ban("address", "10.7.0.9/8")).Want(204)
	b2.Ping()
	for _, c := range []struct {
		id, username string
		want         byte
	}{{"a1", "alice", 0x8a}, {"other", "alice", 0x8a}, {"b1", "bob", 0x8a}, {"other", "bob", 0}} {
		if got := tryAs(t, api, c.id, c.username); got != c.want {
			t.Errorf("%s as %s: CONNACK %#x, want %#x", c.username, c.id, got, c.want)
		}
	}
	wantBans(t, api, "address 10.0.0.0/8", "clientid b1", "username alice")
	if list, _ := denialsOf(api, "?count=1"); len(list) != 1 || !strings.Contains(list[0].Reason, "banned by clientid") {
		t.Errorf("the last denial: %+v", list)
	}
	before := bansOf(api)
	api.Stop()

	again := apitest.New(t, withAdminPassword, apitest.In(dir))
	if diff := cmp.Diff(before, bansOf(again)); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	if got := tryAs(t, again, "a1", "alice"); got != 0x8a {
		t.Errorf("after a restart: CONNACK %#x", got)
	}
	again.Root.Delete(again.At("/bans?kind=username&value=alice")).Want(204)
	again.Root.Delete(again.At("/bans?kind=username&value=alice")).WantError(404, "NOT_FOUND")
	again.Root.Delete(again.At("/bans?kind=address&value=" + url.QueryEscape("10.0.0.0/8"))).Want(204)
	wantBans(t, again, "clientid b1")
	if got := tryAs(t, again, "a1", "alice"); got != 0 {
		t.Errorf("after the ban: CONNACK %#x", got)
	}
}

func wantBans(t *testing.T, api *apitest.API, want ...string) {
	t.Helper()
	var got []string
	for _, b := range bansOf(api) {
		got = append(got, string(b.Kind)+" "+b.Value)
		if b.Reason != "because" || b.CreatedBy != "api" || b.CreatedAt.IsZero() || !b.ExpiresAt.IsZero() {
			t.Errorf("ban: %+v", b)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bans (-want +got):\n%s", diff)
	}
}

// TestBanOfAnAddress ends every connection from there.
func TestBanOfAnAddress(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"127.0.0.1", "127.0.0.0/8", "::ffff:127.0.0.1"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t, withAdminPassword)
			d := join(t, api, 5, "c", asAdmin)
			api.Root.Post(api.At("/bans"), ban("address", value)).Want(204)
			d.WantDisconnect(0x8a)
			if conn, err := net.Dial("tcp", api.MQTT); err == nil {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // a later read fails otherwise
				if n, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("%d bytes came from a broker that bans the address", n)
				}
			}
			api.Root.Delete(api.At("/bans?kind=address&value=" + url.QueryEscape(value))).Want(204)
			join(t, api, 5, "c", asAdmin)
		})
	}
}

// TestBanEndsByTheClock: a ban expires, and a second one replaces the first.
func TestBanEndsByTheClock(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	account(t, api, "alice")
	body := ban("username", "alice")
	api.Root.Post(api.At("/bans"), body).Want(204)
	for life, inTime := 1500*time.Millisecond, false; !inTime; life *= 2 { // for slow machines
		end := time.Now().Add(life)
		body["expires_at"] = end.UTC().Format(time.RFC3339Nano)
		answer := api.Root.Post(api.At("/bans"), body)
		list, code := bansOf(api), tryAs(t, api, "c", "alice")
		if inTime = time.Until(end) > life/2; !inTime {
			continue
		}
		answer.Want(204)
		if len(list) != 1 || list[0].ExpiresAt.IsZero() {
			t.Fatalf("bans: %+v", list)
		}
		if code != 0x8a {
			t.Errorf("while it lasts: CONNACK %#x", code)
		}
	}
	waitFor(t, "the end of the ban", func() bool { return len(bansOf(api)) == 0 })
	if got := tryAs(t, api, "c", "alice"); got != 0 {
		t.Errorf("afterwards: CONNACK %#x", got)
	}
}

// TestFlapping bans a client id that connects again and again.
func TestFlapping(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, func(c *appliance.Config) {
		f := &c.Broker.Limits.Flapping
		f.MaxConnects, f.Window, f.BanTime = 3, time.Hour, time.Hour
	})
	account(t, api, "alice")
	for range 3 {
		join(t, api, 5, "restless", user("alice", "secret")).Disconnect()
	}
	if list := bansOf(api); len(list) != 0 {
		t.Fatalf("three connects within an hour are allowed: %+v", list)
	}
	connectTo(t, api.Listeners[0], nil, 5).Connect(withID("restless"), user("alice", "secret"))
	waitFor(t, "the ban", func() bool { return len(bansOf(api)) == 1 })
	b := bansOf(api)[0]
	if b.Kind != "clientid" || b.Value != "restless" || b.CreatedBy != "flapping" || b.ExpiresAt.Sub(b.CreatedAt) != time.Hour ||
		!strings.Contains(b.Reason, "more than 3 times within 1h0m0s") {
		t.Errorf("ban: %+v", b)
	}
	wantDetailGone(t, api, "restless")
	if got := tryAs(t, api, "restless", "alice"); got != 0x8a {
		t.Errorf("CONNACK %#x, want 0x8a", got)
	}
	if got := tryAs(t, api, "calm", "alice"); got != 0 {
		t.Errorf("another client id: CONNACK %#x", got)
	}
}

// wantDetailGone waits until the session does not exist.
func wantDetailGone(t *testing.T, api *apitest.API, id string) {
	t.Helper()
	waitFor(t, "the end of the session "+id, func() bool {
		return api.Root.Get(api.At("/client-inspect/detail?clientid="+id)).Status == 404
	})
}
