package console_test

import (
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// TestPinCertificate adds a Mosquitto with a self-signed certificate: the test shows that it is
// not trusted, one click pins it, and the broker connects.
func TestPinCertificate(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithCertificate(brokertest.SelfSigned(t, brokertest.CertOptions{Subject: markup + "\u202e\x1b", Names: []string{markup}})))
	for mode, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			s := newSession(t, api.URL)
			p := browsertest.Open(t, api.URL+"/ui/p/"+api.Project+"/brokers/new", append(options, browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))...)
			p.Fill(`[name="name"]`, "hall 3")
			p.Fill(`[name="url"]`, server.TLSURL)
			p.Fill(`[name="username"]`, server.AdminUsername)
			p.Fill(`[name="password"]`, string(server.AdminPassword))
			p.Click(`button[value="test"]`)
			p.WaitFor(`document.querySelector("#trial .message.bad") && document.querySelectorAll("#trial .steps li").length === 4`)
			p.WaitFor(`document.querySelector("#trial pre").textContent.includes("openssl x509")`)
			checkText(t, p)
			if options == nil {
				p.Check("certificate not trusted", browsertest.Some...)
			} else {
				p.Fill(`[name="password"]`, string(server.AdminPassword)) // the page was loaded anew
			}
			p.Click(`button[value="pin"]`)
			p.WaitFor(`document.querySelector("#trial .message.good") && !document.querySelector("[value=pin]")`)
			p.WaitFor(`/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/.test(document.querySelector("[name=server_fingerprint]").value)`)
			if options != nil {
				p.Fill(`[name="password"]`, string(server.AdminPassword))
			}
			p.Click(`button[value="add"]`)
			p.WaitFor(`location.pathname.endsWith("/overview") && document.readyState === "complete"`)
			suite.WaitFor(t, "the pinned broker is connected", func() bool { return connectedBrokers(api) == 2 })
			broker, _, _ := strings.Cut(p.URL(), "/overview")
			p.Go(broker + "/connection")
			p.WaitFor(`/([0-9A-F]{2}:){31}/.test(document.querySelector("#facts + dl")?.textContent)`)
			if options == nil {
				pinInDialog(p, string(server.AdminPassword))
			}
		})
	}
}

// pinInDialog removes the pin in the dialog that edits the connection, and pins the certificate
// again.
func pinInDialog(p *browsertest.Page, password string) {
	p.Click(`main a[href$="/connection/edit"]`)
	p.WaitFor(`document.querySelector("dialog[open] [name=server_fingerprint]")?.value.length === 95`)
	p.Fill(`dialog [name="server_fingerprint"]`, "")
	p.Fill(`dialog [name="password"]`, password)
	p.Click(`dialog button[value="test"]`)
	p.WaitFor(`document.querySelector("dialog #in-trial .message.bad") !== null`)
	p.Click(`dialog button[value="pin"]`)
	p.WaitFor(`document.querySelector("dialog #in-trial .message.good") !== null`)
	p.WaitFor(`document.querySelector("dialog [name=server_fingerprint]").value.length === 95`)
	p.WaitFor(`document.activeElement.matches("dialog #in-trial .message")`)
	p.Click(`dialog button[value="save"]`)
	p.WaitFor(`document.querySelector("main .message.good") !== null`)
}

func connectedBrokers(api *apitest.API) (n int) {
	var list []struct{ Status struct{ Connected bool } }
	api.Root.Get("/api/projects/" + api.Project + "/brokers").Want(200).Decode(&list)
	for _, b := range list {
		if b.Status.Connected {
			n++
		}
	}
	return n
}
