package dial

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Endpoint{
		"mqtt://h":                    {Addr: "h:1883"},
		" tcp://h/ ":                  {Addr: "h:1883"},
		"MQTT://h:99":                 {Addr: "h:99"},
		"mqtts://h":                   {Addr: "h:8883"},
		"ssl://[::1]":                 {Host: "::1", Addr: "[::1]:8883"},
		"ws://h":                      {Addr: "h:80", wsURL: "ws://h:80/"},
		"wss://h/mqtt?key=1":          {Addr: "h:443", wsURL: "wss://h:443/mqtt?key=1"},
		"ws://[2001:db8::1]:9001/a/b": {Host: "2001:db8::1", Addr: "[2001:db8::1]:9001", wsURL: "ws://[2001:db8::1]:9001/a/b"},
	} {
		got, err := Parse(raw)
		if want.Host == "" {
			want.Host = "h"
		}
		if err != nil || got.Addr != want.Addr || got.Host != want.Host || got.wsURL != want.wsURL {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", raw, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"mqtt://h", "wss://u:p@h:1/x?y#z", "ssl://[::1%25lo]:65535", "ws://h/%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		ep, err := Parse(raw)
		if err != nil {
			return
		}
		if ep.Host == "" || !strings.Contains(ep.Addr, ":") || ep.ws != (ep.wsURL != "") {
			t.Errorf("Parse(%q) = %+v", raw, ep)
		}
		if strings.Contains(ep.wsURL, "@") && !strings.Contains(raw, "@") {
			t.Errorf("Parse(%q) made credentials up: %q", raw, ep.wsURL)
		}
	})
}
