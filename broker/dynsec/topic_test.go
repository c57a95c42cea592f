package dynsec

import (
	"strings"
	"testing"

	"signalbox/broker"
)

func TestValidTopicAndFilter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		s                           string
		topic, filter, subscription bool
	}{
		{"a", true, true, true},
		{"a/b", true, true, true},
		{"/", true, true, true},
		{"a//b/", true, true, true},
		{"$SYS/uptime", true, true, true},
		{"ä/ö b", true, true, true},
		{"%c/%u", true, true, true},
		{"", false, false, false},
		{"#", false, true, true},
		{"+", false, true, true},
		{"a/#", false, true, true},
		{"+/a/+", false, true, true},
		{"/+", false, true, true},
		{"a/#/b", false, false, false},
		{"#/a", false, false, false},
		{"a#", false, false, false},
		{"##", false, false, false},
		{"a+", false, false, false},
		{"+a", false, false, false},
		{"a/++/b", false, false, false},
		{"a\x00b", false, false, false},
		{"a/\xff", false, false, false},
		{strings.Repeat("a", 65535), true, true, true},
		{strings.Repeat("a", 65536), false, false, false},
		{"$share/g/a", true, true, true},
		{"$share/g/+/#", false, true, true},
		{"$share/g//", true, true, true},
		{"$share", true, true, true},
		{"$share/", true, true, false},
		{"$share/g", true, true, false},
		{"$share/g/", true, true, false},
		{"$share//a", true, true, false},
		{"$share/+/a", false, true, false},
		{"$share/#", false, true, false},
	}
	for _, tt := range tests {
		got := [3]bool{validTopic(tt.s), broker.ValidFilter(tt.s), validSubscription(tt.s)}
		if want := [3]bool{tt.topic, tt.filter, tt.subscription}; got != want {
			t.Errorf("%.20q: got topic, filter, subscription %v, want %v", tt.s, got, want)
		}
	}
}

func TestFilterCovers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		acl, requested string
		want           bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/c", false},
		{"a/b", "a", false},
		{"a", "a/b", false},
		{"a/b", "A/b", false},
		{"+", "x", true},
		{"+", "+", true},
		{"+", "#", false},
		{"+", "x/y", false},
		{"+/b", "+/b", true},
		{"a/b", "a/+", false},
		{"a/+", "a/#", false},
		{"a/+", "a", false},
		{"a/+", "a/", true},
		{"a/#", "a", true},
		{"a/#", "a/", true},
		{"a/#", "a/#", true},
		{"a/#", "a/+/b", true},
		{"a/#", "+/b", false},
		{"a/#", "#", false},
		{"a/+/#", "a", false},
		{"a/+/#", "a/b", true},
		{"a/+/#", "a/#", false},
		{"#", "#", true},
		{"#", "/", true},
		{"/#", "a", false},
		{"#", "$SYS/x", false},
		{"+/x", "$SYS/x", false},
		{"$SYS/#", "$SYS", true},
		{"$SYS/#", "$SYS/x", true},
		{"$SYS/#", "#", false},
		{"$SYS/+", "$SYS/#", false},
		{"$share/#", "$share/g/a", true},
		{"a/b", "$share/g/a/b", false},
		{"bad#", "bad#", false},
		{"#", "bad#", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got := FilterCovers(tt.acl, tt.requested); got != tt.want {
			t.Errorf("FilterCovers(%q, %q): got %v, want %v", tt.acl, tt.requested, got, tt.want)
		}
	}
}

func TestFilterMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		filter, topic string
		want          bool
	}{
		{"sport/tennis/player1/#", "sport/tennis/player1", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
		{"sport/tennis/+", "sport/tennis/player1", true},
		{"sport/tennis/+", "sport/tennis/player1/ranking", false},
		{"sport/+", "sport", false},
		{"sport/+", "sport/", true},
		{"+/+", "/finance", true},
		{"/+", "/finance", true},
		{"+", "/finance", false},
		{"#", "$SYS/monitor/Clients", false},
		{"+/monitor/Clients", "$SYS/monitor/Clients", false},
		{"$SYS/#", "$SYS/monitor/Clients", true},
		{"a/#", "a/#", false},
		{"a/+", "a/+", false},
	}
	for _, tt := range tests {
		if got := FilterMatches(tt.filter, tt.topic); got != tt.want {
			t.Errorf("FilterMatches(%q, %q): got %v, want %v", tt.filter, tt.topic, got, tt.want)
		}
	}
}

// A filter matches what it covers: a topic of the covered filter is one of the covering
// filter's too.
func FuzzFilterCovers(f *testing.F) {
	for _, s := range [][3]string{
		{"a/#", "a/+/c", "a/b/c"}, {"#", "+", "x"}, {"+/b", "+/b", "/b"}, {"a/+/#", "a/b", "a/b"}, {"#", "$a/#", "$a"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, acl, requested, topic string) {
		if FilterCovers(acl, requested) && FilterMatches(requested, topic) && !FilterMatches(acl, topic) {
			t.Errorf("%q covers %q, which matches %q, but does not match it", acl, requested, topic)
		}
		if broker.ValidFilter(acl) && !FilterCovers(acl, acl) {
			t.Errorf("%q does not cover itself", acl)
		}
	})
}
