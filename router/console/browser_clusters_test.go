package console_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// clusterConsole is an operator of clusters.
type clusterConsole struct {
	*browsertest.Page
	t *testing.T
}

// set sets fields of the form that is shown.
func (c *clusterConsole) set(form string, fields map[string]string) {
	c.t.Helper()
	for name, value := range fields {
		field := fmt.Sprintf("%s [name=%q]", form, name)
		c.WaitFor(fmt.Sprintf("document.querySelector(%q)", field))
		c.Evaluate(fmt.Sprintf("document.querySelector(%q).value = %q", field, value), nil)
	}
}

// dialog opens a link as a dialog, fills in its form and sends it. What is shown after that must
// name the result.
func (c *clusterConsole) dialog(link, what string, fields map[string]string, result string) {
	c.t.Helper()
	c.Click(link)
	c.WaitFor("document.querySelector('#dialog').open && document.querySelector('#dialog form')")
	if text := c.Text("#dialog"); !strings.Contains(text, what) {
		c.t.Errorf("%s does not state %q:\n%s", link, what, text)
	}
	c.set("#dialog", fields)
	c.Click("#dialog form :is(.primary, .danger)")
	c.WaitFor(fmt.Sprintf("document.readyState === 'complete' && document.querySelector('main .message.good')?.innerText.includes(%q)", result))
}

// wantNodes loads the page again until it shows the nodes, one of which leads: "1 Leader".
func (c *clusterConsole) wantNodes(want ...string) {
	c.t.Helper()
	suite.Eventually(c.t, func() error {
		c.Reload()
		var got []string
		c.Evaluate("[...document.querySelectorAll('#nodes tbody tr')].map(e => e.cells[0].innerText.trim() + ' ' + e.cells[2].innerText.trim())", &got)
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			return fmt.Errorf("the nodes are shown as %q, want %q", got, want)
		}
		return nil
	})
}

// TestClusterFlow creates a cluster of two brokers, adds the third one at a wrong port and at the
// right one, makes another node the leader, removes a node and deletes the cluster.
func TestClusterFlow(t *testing.T) {
	t.Parallel()
	var addresses [3]string
	var services [3]*apitest.API
	for i := range services {
		addresses[i] = brokertest.FreePort(t, "127.0.0.1")
		services[i] = newNode(t, addresses[i])
	}
	p := &plant{services[0], t, plain, nil, map[string]string{}}
	brokers := [3]string{p.Embedded, p.addNode("second", services[1]), p.addNode("third", services[2])}
	node := func(prefix string, i int) map[string]string {
		host, port, err := net.SplitHostPort(addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{prefix + "broker_id": brokers[i], prefix + "address": host, prefix + "port": port}
	}
	has := func(i int, username string) bool {
		return strings.Contains(string(services[i].Root.Get(services[i].At("/clients")).Want(200).Body), `"`+username+`"`)
	}

	c := &clusterConsole{signIn(t, p.URL+"/ui/p/"+p.Project+"/clusters"), t}
	c.Click("main .heading a[href$='/clusters/new']")
	c.set("main", map[string]string{"clustername": "site"})
	c.Click("main [name=syncmode][value=dynsec]")
	c.set("main", node("nodes/0/", 0))
	c.set("main", node("nodes/1/", 1))
	c.Click("main form .primary")
	c.WaitFor("document.readyState === 'complete' && document.querySelector('main .message.good') && document.querySelector('#list tbody th a')")
	c.Click("#list tbody th a")
	c.WaitFor("document.querySelector('#nodes')")
	c.wantNodes("1 Leader", "2 Follower")

	third := node("", 2)
	third["nodeid"], third["name"] = "3", "third"
	right := third["port"]
	_, third["port"], _ = net.SplitHostPort(brokertest.FreePort(t, "127.0.0.1"))
	c.Expect("503 Service Unavailable")
	c.Click("main .heading a[href$='/join']")
	c.set("#dialog", third)
	c.Click("#dialog form :is(.primary, .danger)")
	c.WaitFor(fmt.Sprintf("document.querySelector('#dialog .message.bad')?.innerText.includes(%q)", "at 127.0.0.1:"+third["port"]))
	c.Reload()
	c.wantNodes("1 Leader", "2 Follower")
	third["port"] = right
	c.dialog("main .heading a[href$='/join']", "is replaced by that of the cluster", third, "third")
	c.wantNodes("1 Leader", "2 Follower", "3 Follower")
	p.Root.Post(p.At("/clients"), object{"username": "pump-7", "password": secret}).Want(204)
	suite.WaitFor(t, "the third node has the client", func() bool { return has(2, "pump-7") })

	c.dialog("#nodes a[href$='/leader?node=2']", "Changes wait for a moment", nil, "second")
	c.wantNodes("1 Follower", "2 Leader", "3 Follower")
	c.dialog("#nodes a[href$='/leave?node=3']", "The cluster then tolerates no loss", nil, "third")
	c.wantNodes("1 Follower", "2 Leader")
	services[2].Root.Post(services[2].At("/clients"), object{"username": "pump-8", "password": secret}).Want(204)

	c.dialog("main .heading a[href$='/delete']", "every node continues on its own", map[string]string{"confirm": "site"}, "site")
	c.WaitFor("location.pathname.endsWith('/clusters') && document.querySelector('#list .empty')")
	for i := range services {
		if !has(i, "pump-7") || has(i, "pump-8") != (i == 2) {
			t.Errorf("node %d has pump-7: %t, pump-8: %t", i+1, has(i, "pump-7"), has(i, "pump-8"))
		}
	}
}
