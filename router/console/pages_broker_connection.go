package console

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// connectionView is how a broker is reached, and what it can do.
type connectionView struct {
	frame
	Record   part[brokerRecord]
	Info     part[brokerInfo]
	License  part[license]
	Features []shownFeature
	Filter   string
	Values   []sysValue // that match the filter

	Cluster, Why string // how its cluster works, and why it is away; "" for none
}

// shownFeature is a capability, and why the broker does not have it.
type shownFeature struct {
	missingNotice
	Text string
	Has  bool
}

// sysValue is a $SYS topic with its value, and the unit of a number that is no count.
type sysValue struct{ Topic, Value, Unit string }

func viewConnection(q *request) (view, error) {
	v := &connectionView{Filter: q.query.Get("filter")}
	var g parts
	load(&g, q, &v.Record, "getBroker", nil)
	load(&g, q, &v.Info, "getBrokerInfo", nil)
	load(&g, q, &v.License, "getLicense", nil)
	g.wait()
	if e := v.Record.Err; e != nil {
		return nil, e
	}
	v.Cluster, v.Why = q.clusterMode(orEmpty(v.Record.Value.ClusterMode)), q.inConnectionTerms(v.Record.Value.Status.Error)
	v.Features = shownFeatures(v.Record.Value.Capabilities, v.Record.Value.Status.Missing, q.lang)
	v.Values = v.Info.Value.SysTopics.matching(v.Filter)
	for i := range v.Values {
		v.Values[i].scale(q.lang)
	}
	return v, nil
}

// shownFeatures returns what a broker has, and then what it lacks.
func shownFeatures(capabilities []string, missing []missingFeature, l *locale) []shownFeature {
	var list []shownFeature
	for _, c := range capabilities {
		list = append(list, shownFeature{Text: featureText(l, c), Has: true})
	}
	for _, m := range missing {
		notice := newMissingNotice(inSettingTerms(m.Reason, l), inSettingTerms(m.Remedy, l))
		list = append(list, shownFeature{missingNotice: *notice, Text: featureText(l, m.Feature)})
	}
	return list
}

// inSettingTerms returns a text of the API with the label of the setting that forbids a topic
// tree instead of the member of the connection.
func inSettingTerms(text string, l *locale) string {
	label := "“" + l.text("connection.field.topictree") + "”"
	text = strings.ReplaceAll(text, "set the connection's member topictree to true", "turn on "+label+" of the connection")
	return strings.ReplaceAll(text, "the connection's member topictree forbids making one", label+" of the connection is off")
}

// featureText returns what a capability is for; its name if this version does not know it.
func featureText(l *locale, capability string) string {
	if key := "broker.feature." + capability; l.has(key) {
		return l.text(key)
	}
	return show(capability)
}

// matching returns the topics whose name contains a text, in order.
func (s sysSample) matching(text string) []sysValue {
	var list []sysValue
	for topic, value := range s.Topics {
		if strings.Contains(strings.ToLower(topic), strings.ToLower(text)) {
			list = append(list, sysValue{topic, value, sysUnit(topic)})
		}
	}
	slices.SortFunc(list, func(a, b sysValue) int { return strings.Compare(a.Topic, b.Topic) })
	return list
}

// scale writes a number of bytes as the other pages do.
func (v *sysValue) scale(l *locale) {
	rest, ok := strings.CutPrefix(v.Unit, "B")
	if n, err := strconv.ParseFloat(v.Value, 64); ok && err == nil && n >= 0 && n < 1<<53 {
		v.Value, v.Unit = l.bytes(int64(math.Round(n)))+rest, ""
	}
}

// sysUnit returns the unit of a $SYS topic as Mosquitto names it, "" for a count or a text:
// loads are averages per minute.
func sysUnit(topic string) (unit string) {
	if strings.Contains(topic, "/bytes") || strings.Contains(topic, "/heap/") {
		unit = "B"
	}
	if strings.Contains(topic, "/load/") {
		unit += "/min"
	}
	return unit
}

// connectionFields are those of a connection that was stored. A secret that is stored can be
// cleared.
func (q *request) connectionFields(b *brokerRecord) []field {
	checked := func(name string, on bool) field { return field{Name: name, Kind: kindCheckbox, Checked: on} }
	fields := []field{
		{Name: "name", Kind: kindText, Required: true, Value: b.Name},
		{Name: "url", Kind: kindText, Required: true, Value: b.URL},
		{Name: "description", Kind: kindLong, Value: b.Description},
		{Name: "username", Kind: kindText, Value: orEmpty(b.Username)},
		{Name: "password", Kind: kindPassword, Autocomplete: "new-password"},
	}
	if b.HasPassword {
		fields = append(fields, checked("clear-password", false))
	}
	fields = append(fields, checked("topictree", b.TopicTree),
		checked("verify_ca_cert", b.Verify),
		field{Name: "ca_cert", Kind: kindLong, Value: orEmpty(b.CACert)},
		fingerprintField(orEmpty(b.Fingerprint)),
		field{Name: "client_cert", Kind: kindLong, Value: orEmpty(b.ClientCert)},
		field{Name: "client_key", Kind: kindLong, Secret: true})
	if b.HasClientKey {
		fields = append(fields, checked("clear-client_key", false))
	}
	return q.labelled("connection", fields...)
}

// nullable are the members of a connection that null clears.
var nullable = []string{"description", "username", "ca_cert", "server_fingerprint", "client_cert"}

// secrets are the members of a connection that are never returned: empty means unchanged.
var secrets = []string{"password", "client_key"}

// connectionChanges returns the body of updateBroker for the posted form. A secret is
// cleared if the field "clear-NAME" is checked.
func connectionChanges(f form, posted url.Values) map[string]any {
	body := f.body(posted)
	for _, name := range nullable {
		if _, ok := body[name]; !ok {
			body[name] = nil
		}
	}
	for _, name := range secrets {
		delete(body, "clear-"+name)
		if _, ok := body[name]; !ok && posted.Get("clear-"+name) == "true" {
			body[name] = nil
		}
	}
	return body
}

func (q *request) connectionForm(b *brokerRecord) form {
	f := q.actionForm("save", "connection.save", q.linkInBroker("connection"), q.connectionFields(b)...)
	f.Fold = foldOfTLS(f)
	if f.ID = connectionFormID; q.role() >= admin {
		f.Also = []button{{Do: "test", Text: q.t("connection.test"), Part: "trial"}}
	}
	return f
}

// connection returns the broker's record for a form.
func (q *request) connection() (*brokerRecord, error) {
	var b brokerRecord
	return &b, q.get("getBroker", nil, &b)
}

// connectionEditView is the form of a connection, with the outcome of a test.
type connectionEditView struct {
	formView
	Trial *trialView // nil before a test
}

func viewConnectionEdit(q *request) (view, error) {
	b, err := q.connection()
	if err != nil {
		return nil, err
	}
	v := &connectionEditView{}
	v.Intro, v.Form = []string{q.t("connection.edit_effect")}, q.connectionForm(b)
	v.Trial = q.shownTrial(v.Form)
	return v, nil
}

func saveConnection(q *request) (string, error) {
	b, err := q.connection()
	if err != nil {
		return "", err
	}
	if err := q.do("updateBroker", nil, connectionChanges(q.connectionForm(b), q.http.PostForm)); err != nil {
		return "", err
	}
	return done(q.inBroker("connection"), "connection_saved", q.posted("name")), nil
}

// testConnection shows the form again with the outcome of a test.
func testConnection(q *request) (string, error) {
	b, err := q.connection()
	if err != nil {
		return "", err
	}
	var t trial
	if _, err := q.perform("testBroker", q.params, nil, newConnection(q.connectionForm(b), q.http.PostForm), &t); err != nil {
		return "", err
	}
	q.trial = &t
	return "", errShow
}

// pinConnection is testConnection with the certificate that was shown as the only one to
// accept.
func pinConnection(q *request) (string, error) {
	q.pin()
	return testConnection(q)
}

// newConnection returns the body of testBroker for the posted form.
func newConnection(f form, posted url.Values) map[string]any {
	body := f.body(posted)
	for _, name := range secrets {
		delete(body, "clear-"+name)
	}
	return body
}

func viewConnectionDelete(q *request) (view, error) {
	b, err := q.connection()
	if err != nil {
		return nil, err
	}
	var streams, bridges part[[]struct{}]
	var g parts
	load(&g, q, &streams, "listStreams", url.Values{"count": {"0"}})
	load(&g, q, &bridges, "listBridges", nil)
	g.wait()
	v := &formView{Intro: []string{q.t("connection.delete_effect")},
		Facts: []fact{plainly(q.t("connection.field.name"), b.Name), of(q.t("connection.field.url"), b.URL)}}
	if streams.Err == nil {
		v.Facts = append(v.Facts, plainly(q.t("connection.streams"), q.lang.number(streams.Total)))
	}
	if bridges.Err == nil {
		v.Facts = append(v.Facts, plainly(q.t("connection.bridges"), q.lang.number(len(bridges.Value))))
	}
	if b.Embedded() {
		return nil, &apiError{Status: http.StatusBadRequest, Code: "CONFLICT", Message: q.t("connection.embedded")}
	}
	v.Form = q.deletion("delete", "connection.delete", q.linkInBroker("connection"))
	return v, nil
}

func deleteConnection(q *request) (string, error) {
	b, err := q.connection()
	if err != nil {
		return "", err
	}
	if err := q.do("deleteBroker", nil, nil); err != nil {
		return "", err
	}
	return done(q.inProject("brokers"), "connection_deleted", b.Name), nil
}
