package apitest_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// TestResponsesOfTargetsAreForEditors points a bridge, as a viewer, at a server that only
// this service reaches, to read its responses.
func TestResponsesOfTargetsAreForEditors(t *testing.T) {
	t.Parallel()
	const inside = "qq-inside-qq"
	page := inside + strings.Repeat("x", 100_000)
	for name, answer := range map[string]http.HandlerFunc{
		"a refusal": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, page, http.StatusForbidden) },
		"a failure": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, page, http.StatusInternalServerError) },
		"a redirection": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1/?"+inside)
			w.WriteHeader(http.StatusFound)
		},
	} {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		api := apitest.New(t)
		viewer, editor := api.Token("viewer"), api.Token("editor")
		viewer.Put(bridgeAt(api, api.Embedded, "/config"), toHTTPTarget(server.URL, "", object{"maxAttempts": 2})).Want(204)
		editor.Post(api.At("/messages"), object{"topic": "in/1", "payload": "x", "qos": 1}).Want(204)
		letters := func(c *apitest.Caller) (list []broker.DeadLetter, body string) {
			a := c.Get(bridgeAt(api, api.Embedded, "/connections/c/deadletters")).Want(200)
			a.Decode(&list)
			return list, string(a.Body)
		}
		var seen strings.Builder // everything that a viewer receives
		waitFor(t, name+" to become a dead letter", func() bool {
			seen.Write(viewer.Get(bridgeAt(api, api.Embedded, "/status")).Want(200).Body)
			list, body := letters(viewer)
			seen.WriteString(body)
			return len(list) == 1 && list[0].Reason != ""
		})
		seen.Write(viewer.Get(bridgeAt(api, api.Embedded, "/config")).Want(200).Body)
		if strings.Contains(seen.String(), inside) {
			t.Errorf("%s: a viewer is shown what the server answered: %s", name, seen.String())
		}
		list, _ := letters(editor)
		if got := list[0]; !strings.Contains(got.Answer, inside) || len(got.Answer) > 600 || !strings.Contains(got.Reason, "the server answered") {
			t.Errorf("%s: an editor is shown the reason %q and %d bytes of the answer %q", name, got.Reason, len(got.Answer), got.Answer)
		}
		if body := string(editor.Get(bridgeAt(api, api.Embedded, "/status")).Want(200).Body); strings.Contains(body, inside) {
			t.Errorf("%s: the state shows what the server answered: %s", name, body)
		}
	}
}

// banners are the greetings of servers in the protocols of all targets.
func banners(inside string) map[string]string {
	mysql := "\xff\x15\x04" + inside // error 1045 without a state
	postgres := "SFATAL\x00C28000\x00M" + inside + "\x00\x00"
	return map[string]string{
		"ssh":      "SSH-2.0-" + inside + "\r\n",
		"http":     "HTTP/1.1 999 " + inside + "\r\n" + inside + ": " + inside + "\r\n" + inside + "\r\n\r\n",
		"mysql":    string([]byte{byte(len(mysql)), 0, 0, 0}) + mysql,
		"postgres": "E" + string([]byte{0, 0, 0, byte(4 + len(postgres))}) + postgres,
		"nats":     "INFO {}\r\n-ERR '" + inside + "'\r\n",
		"refusal":  "-ERR '" + inside + "'\r\n",
	}
}

// newBanner listens and sends the same text to every client.
func newBanner(t *testing.T, text string) (addr string) {
	t.Helper()
	return newServer(t, func(c net.Conn) { io.WriteString(c, text) }) //nolint:errcheck // the peer may have closed
}

// newResponder listens and sends the same text to every client that has sent something.
func newResponder(t *testing.T, text string) (addr string) {
	t.Helper()
	return newServer(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			io.WriteString(c, text) //nolint:errcheck // as before
		}
	})
}

// newServer listens and calls greet for every connection, which then sends nothing
// more.
func newServer(t *testing.T, greet func(net.Conn)) (addr string) {
	t.Helper()
	return suite.Listen(t, func(c net.Conn) {
		greet(c)
		c.(*net.TCPConn).CloseWrite() //nolint:errcheck // the peer may have closed
		io.Copy(io.Discard, c)        //nolint:errcheck // until the peer closes
	})
}

// TestBannersOfTargetsAreForEditors points bridges of all kinds, as a viewer, at
// servers that only this service reaches, to read their greetings.
func TestBannersOfTargetsAreForEditors(t *testing.T) {
	t.Parallel()
	const inside = "qq-inside-qq"
	api := apitest.New(t)
	viewer, editor := api.Token("viewer"), api.Token("editor")
	certificate, key := newCertificate(t)
	var tested strings.Builder // everything that an editor receives
	for banner, text := range banners(inside) {
		addr := newBanner(t, text)
		for kind, targets := range withSecrets(addr, certificate, key) {
			var names []string
			for i := range targets {
				names = append(names, nameOf(i))
			}
			config := connectionsTo(kind, names, targets)
			at := func(path string) string { return api.At("/bridges/" + kind + path) }
			tested.Write(editor.Post(at("/test"), config).Want(200).Body)
			if kind == "http-bridge" { // it connects only for a message
				continue
			}
			viewer.Put(at("/config"), config).Want(204)
			waitFor(t, kind+" not to reach "+banner, func() bool {
				var all []broker.BridgeStatus
				answer := viewer.Get(at("/status")).Want(200)
				if strings.Contains(string(answer.Body), inside) {
					t.Fatalf("%s at %s: a viewer is shown what the target said: %s", kind, banner, answer.Body)
				}
				answer.Decode(&all)
				return !slices.ContainsFunc(all, func(s broker.BridgeStatus) bool { return !s.IsConnected && s.Error == "" })
			})
			viewer.Put(at("/config"), object{"connections": []object{}}).Want(204)
		}
	}
	if n := strings.Count(tested.String(), inside); n < 5 {
		t.Errorf("an editor who tries connections is shown %d times what a target said: %s", n, tested.String())
	}
}

// TestBannersInDeadLetters reads the greetings of servers that do not speak HTTP.
func TestBannersInDeadLetters(t *testing.T) {
	t.Parallel()
	const inside = "qq-inside-qq"
	api := apitest.New(t)
	viewer, editor := api.Token("viewer"), api.Token("editor")
	viewer.Put(bridgeAt(api, api.Embedded, "/config"), toHTTPTarget("http://"+newResponder(t, banners(inside)["ssh"]), "", object{"maxAttempts": 1})).Want(204)
	editor.Post(api.At("/messages"), object{"topic": "in/1", "payload": "x", "qos": 1}).Want(204)
	var letters []broker.DeadLetter
	waitFor(t, "a dead letter", func() bool {
		answer := viewer.Get(bridgeAt(api, api.Embedded, "/connections/c/deadletters")).Want(200)
		state := viewer.Get(bridgeAt(api, api.Embedded, "/status")).Want(200)
		if strings.Contains(string(answer.Body)+string(state.Body), inside) {
			t.Fatalf("a viewer is shown what the target said: %s %s", answer.Body, state.Body)
		}
		answer.Decode(&letters)
		return len(letters) == 1
	})
	editor.Get(bridgeAt(api, api.Embedded, "/connections/c/deadletters")).Want(200).Decode(&letters)
	if got := letters[0]; !strings.Contains(got.Answer, inside) || got.Reason == "" {
		t.Errorf("an editor is shown %+v", got)
	}
}
