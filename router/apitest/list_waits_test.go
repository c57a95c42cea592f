package apitest_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// dialSlow connects with buffers so small that a long response does not fit.
func dialSlow(t *testing.T, api *apitest.API) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(api.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestListsDoNotWaitForOtherCallers has callers that stop in the middle of long lists,
// exports and an import.
func TestListsDoNotWaitForOtherCallers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	const clients = 2_000
	var document strings.Builder
	document.WriteString(`{"clients":[`)
	for i := range clients {
		fmt.Fprintf(&document, `%s{"username":"u%05d","textdescription":"%04000d"}`, strings.Repeat(",", min(i, 1)), i, i)
	}
	document.WriteString(`]}`)
	api.Root.Post(api.At("/access/import"), apitest.Text(document.String())).Want(200)
	token := api.TokenText("admin")
	for range 5 {
		for _, path := range []string{"/clients?count=-1", "/clients?count=-1&filterMode=regex&filterValue=u", "/access/export"} {
			conn := dialSlow(t, api)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", api.At(path), token)
			resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: got %v, %v", path, resp, err)
			}
		}
		sendHeader(t, api, token, "POST", api.At("/access/import"), object{"clients": []object{}})
	}
	var all []broker.Client
	api.Root.Get(api.At("/clients?count=-1")).Want(200).Decode(&all)
	if len(all) < clients {
		t.Errorf("got %d clients, want %d", len(all), clients)
	}
	api.Root.Get(api.At("/access/export")).Want(200)
	api.Root.Post(api.At("/clients"), object{"username": "new", "password": "secret"}).Want(204)
	api.Root.Get(api.At("/clients?username=new")).Want(200)
	api.Root.Post(api.At("/access/import"), apitest.Text(`{"clients":[{"username":"other"}]}`)).Want(200)
}
