package console

import (
	"slices"
	"strings"
)

// connectPages are the brokers of a project, and how one is added.
func connectPages() []*page {
	return []*page{
		{path: "/ui/p/{projectId}/brokers", name: "brokers", template: "list", role: viewer, help: "brokers", calls: []string{"listBrokers", "getMetricHistory"}, view: viewBrokers},
		{path: "/ui/p/{projectId}/brokers/new", name: "broker-new", template: "connect", group: "brokers", role: admin, help: "brokers", calls: []string{"createBroker", "testBroker"},
			view: viewConnect, actions: map[string]action{"add": createBroker, "test": testBroker, "pin": pinNewBroker}, fragments: []string{"trial", "fingerprint"}},
	}
}

func viewBrokers(q *request) (view, error) {
	var list []brokerRecord
	total, err := q.list("listBrokers", nil, &list)
	if err != nil {
		return nil, err
	}
	load, full := q.loadHead()
	v := &listView{Intro: q.t("home.empty"), Paging: q.allOf("listBrokers", total), Full: full,
		Head: slices.Concat([]string{q.t("col.name"), q.t("col.state"), q.t("col.kind"), q.t("connection.features")}, load, []string{q.t("col.address"), q.t("col.since")})}
	v.Choice = q.columns(v.Head...)
	if q.role() >= admin {
		v.Add = link{Text: q.t("brokers.add"), To: q.inProject("brokers/new")}
	}
	var g parts
	brokers := q.loaded(&g, q.params["projectId"], list, maxLoads)
	g.wait()
	setTexts(q.lang, brokers)
	for _, b := range brokers {
		state := cell{Text: q.t("state.connected"), State: "good"}
		if !b.Status.Connected {
			state = cell{Text: q.t("state.disconnected"), State: "bad", Quiet: b.Status.Error}
		}
		cells := []cell{{Text: b.Name, To: q.inProject("b/" + b.ID + "/overview"), Quiet: b.Description}, state, b.Kind, q.featureCell(&b.brokerRecord)}
		for _, text := range b.Load {
			cells = append(cells, cell{Text: text, Number: true})
		}
		v.Rows = append(v.Rows, row{Cells: append(cells, cell{Text: b.URL, Code: true}, cell{Time: b.Status.Since})})
	}
	return v, nil
}

// listedFeature is a feature in a list of brokers, and why a broker does not have it.
type listedFeature struct {
	Text, Reason string
	Title        string // the reason in the language
	Has          bool
	Break        bool // begins the second line
}

// featureCell returns the features that differ most between brokers, as a link to all of them; none of
// a broker that was never connected.
func (q *request) featureCell(b *brokerRecord) (c cell) {
	for _, f := range []struct{ name, text string }{
		{"dynamic-security", "nav.access"}, {"inspect", "brokers.feature.inspect"},
		{"topic-tree", "broker.feature.topic-tree"}, {"streams", "broker.feature.streams"}, {"bridges", "broker.feature.bridges"}} {
		shown := listedFeature{Text: q.t(f.text), Has: slices.Contains(b.Capabilities, f.name), Break: f.name == "topic-tree"}
		if i := slices.IndexFunc(b.Status.Missing, func(m missingFeature) bool { return m.Feature == f.name }); i >= 0 {
			shown.Reason = inSettingTerms(b.Status.Missing[i].Reason, q.lang)
			shown.Title, _ = q.lang.sentence(shown.Reason)
		} else if !shown.Has {
			continue
		}
		c.Features, c.To = append(c.Features, shown), q.inProject("b/"+b.ID+"/connection#features")
	}
	return c
}

// connectView is the form for a new broker connection, with the outcome of a test.
type connectView struct {
	frame
	Form  form
	Trial *trialView // nil before a test
}

// connectForm is the form of a connection that is not stored yet.
func (q *request) connectForm() form {
	f := q.newForm("add", "brokers.add",
		field{Name: "name", Kind: kindText, Required: true},
		field{Name: "url", Kind: kindText, Required: true, Value: "mqtt://"},
		field{Name: "username", Kind: kindText},
		field{Name: "password", Kind: kindPassword, Autocomplete: "new-password"},
		field{Name: "topictree", Kind: kindCheckbox, Checked: true},
		field{Name: "description", Kind: kindLong},
		field{Name: "verify_ca_cert", Kind: kindCheckbox, Checked: true},
		field{Name: "ca_cert", Kind: kindLong},
		fingerprintField(""),
		field{Name: "client_cert", Kind: kindLong},
		field{Name: "client_key", Kind: kindLong, Secret: true})
	f.ID, f.Fold, f.Also = connectionFormID, foldOfTLS(f), []button{{Do: "test", Text: q.t("brokers.test"), Part: "trial"}}
	return f
}

// foldOfTLS returns the part of a connection's form that only an address with TLS needs: the
// fields from the first one about certificates on. It is open for such an address.
func foldOfTLS(f form) fold {
	const first = "verify_ca_cert"
	url := f.Field("url").Value
	return fold{Title: "TLS (mqtts://, wss://)", First: first, On: first, Open: strings.HasPrefix(url, "mqtts:") || strings.HasPrefix(url, "wss:")}
}

func viewConnect(q *request) (view, error) {
	f := q.connectForm()
	v := &connectView{Form: f, Trial: q.shownTrial(f)}
	v.Form.Cancel = q.root + "/" + q.inProject("brokers")
	return v, nil
}

// testBroker shows the page again with the outcome of a test.
func testBroker(q *request) (string, error) {
	var t trial
	if _, err := q.perform("testBroker", q.params, nil, q.connectForm().body(q.http.PostForm), &t); err != nil {
		return "", err
	}
	q.trial = &t
	return "", errShow
}

// pinNewBroker is testBroker with the certificate that was shown as the only one to accept.
func pinNewBroker(q *request) (string, error) {
	q.pin()
	return testBroker(q)
}

func createBroker(q *request) (string, error) {
	var created struct {
		ID string `json:"id"`
	}
	if _, err := q.perform("createBroker", q.params, nil, q.connectForm().body(q.http.PostForm), &created); err != nil {
		return "", err
	}
	return done(q.inProject("b/"+created.ID+"/overview"), "broker_created", q.posted("name")), nil
}
