package broker

import (
	"strings"
	"testing"
)

func TestShowPayload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payload         string
		limit           int
		shown, encoding string
		truncated       bool
	}{
		"text":                             {"21.5 °C", -1, "21.5 °C", "", false},
		"nothing":                          {"", 10, "", "", false},
		"as long as the limit":             {"abc", 3, "abc", "", false},
		"longer than the limit":            {"abcd", 3, "abc", "", true},
		"cut inside a character":           {"aé", 2, "a", "", true},
		"cut inside the first character":   {"€", 1, "", "", true},
		"bytes":                            {"\xff\x00", -1, "/wA=", "base64", false},
		"bytes beyond the limit":           {"ab\xff", 2, "YWI=", "base64", true},
		"text that looks cut is no text":   {"ab\xc3", -1, "YWLD", "base64", false},
		"a limit of nothing shows nothing": {"x", 0, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown, encoding, truncated := ShowPayload([]byte(c.payload), c.limit)
			if shown != c.shown || encoding != c.encoding || truncated != c.truncated {
				t.Errorf("got %q, %q, %v, want %q, %q, %v", shown, encoding, truncated, c.shown, c.encoding, c.truncated)
			}
			m := RetainedMessage{Topic: "t"}.WithPayload([]byte(c.payload), c.limit)
			if m.Payload != shown || m.Size != len(c.payload) || m.Topic != "t" {
				t.Errorf("message: got %+v", m)
			}
		})
	}
}

func TestBanValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        BanKind
		value, want string
	}{
		{BanAddress, "10.1.2.3", "10.1.2.3"},
		{BanAddress, "10.1.2.3/8", "10.0.0.0/8"},
		{BanAddress, "::ffff:10.1.2.3", "10.1.2.3"},
		{BanAddress, "2001:DB8:0:0::1", "2001:db8::1"},
		{BanAddress, "2001:db8::1/64", "2001:db8::/64"},
		{BanAddress, "fe80::1%eth0", ""},
		{BanAddress, "10.1.2", ""},
		{BanAddress, "10.0.0.0/33", ""},
		{BanAddress, "", ""},
		{BanUsername, "", ""},
		{BanUsername, "10.1.2.3/8", "10.1.2.3/8"},
		{BanClientID, " x", " x"},
	} {
		got, ok := BanValue(c.kind, c.value)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("BanValue(%s, %q) = %q, %v, want %q", c.kind, c.value, got, ok, c.want)
		}
	}
}

func TestValidTopicAndSubscription(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxTopic)
	for _, c := range []struct {
		s                   string
		topic, subscription bool
	}{
		{"a/b", true, true}, {"/", true, true}, {"$SYS/x", true, true}, {long, true, true},
		{"", false, false}, {long + "x", false, false}, {"a\x00", false, false}, {"\xff", false, false},
		{"a/+", false, true}, {"#", false, true}, {"a/#/b", false, false}, {"a+", false, false},
		{"$share/g/a/#", false, true}, {"$share/g/", true, false}, {"$share/g", true, false},
		{"$share//a", true, false}, {"$share/+/a", false, false}, {"$shared/x", true, true},
	} {
		if got := ValidTopic(c.s); got != c.topic {
			t.Errorf("ValidTopic(%.20q) = %v", c.s, got)
		}
		if got := ValidSubscription(c.s); got != c.subscription {
			t.Errorf("ValidSubscription(%.20q) = %v", c.s, got)
		}
	}
}
