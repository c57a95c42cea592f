package console

import (
	"strings"
	"testing"
)

// TestProgramOf names browsers by what they send.
func TestProgramOf(t *testing.T) {
	t.Parallel()
	const webkit = "AppleWebKit/537.36 (KHTML, like Gecko) "
	for agent, want := range map[string]string{
		"":          "",
		"curl/8.14": "curl/8.14",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                               "Firefox, Windows",
		"Mozilla/5.0 (X11; Linux x86_64) " + webkit + "Chrome/141.0.0.0 Safari/537.36":                                                                   "Chrome, Linux",
		"Mozilla/5.0 (X11; Linux x86_64) " + webkit + "HeadlessChrome/141.0.0.0 Safari/537.36":                                                           "Chrome, Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + webkit + "Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0":                                           "Edge, Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15":                          "Safari, macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Mobile/15E148 Safari/604.1":        "Safari, iOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/141.0.7390.41 Mobile/15E148 Safari/604.1": "Chrome, iOS",
		"Mozilla/5.0 (Linux; Android 10; K) " + webkit + "SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36":                                     "Samsung Internet, Android",
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) " + webkit + "Chrome/141.0.0.0 Safari/537.36":                                                          "Chrome, ChromeOS",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + webkit + "Chrome/141.0.0.0 Safari/537.36 OPR/125.0.0.0":                                           "Opera, Windows",
		"Mozilla/5.0 (Haiku x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                              "Firefox",
		strings.Repeat("ü", 61): strings.Repeat("ü", 60) + "…",
	} {
		if got := programOf(agent); got != want {
			t.Errorf("%s: got %q, want %q", agent, got, want)
		}
	}
}
