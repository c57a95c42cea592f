package console

import (
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample(at int64, pairs ...string) sysSample {
	s := sysSample{Date: at, Topics: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Topics[sysPrefix+pairs[i]] = pairs[i+1]
	}
	return s
}

func TestRates_have_gaps_where_the_counter_is_unknown(t *testing.T) {
	t.Parallel()
	samples := []sysSample{sample(0, "n", "100"), sample(10_000, "n", "150"), sample(20_000, "n", "20"), sample(30_000, "n", "20"),
		sample(40_000), sample(50_000, "n", "40"), sample(50_000, "n", "50"), sample(60_000, "n", "NaN"), sample(70_000, "n", " 60 ")}
	var got []string
	for _, p := range rates(samples, "n") {
		text := "-"
		if p.OK {
			text = strconv.FormatFloat(p.Value, 'g', -1, 64)
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"-", "5", "-", "0", "-", "-", "-", "-", "-"}, got); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
	if points := rates(nil, "n"); len(points) != 0 {
		t.Errorf("rates of nothing: %v", points)
	}
	sum, ok := sample(0, "a", "1", "b", "2", "c", "x").value("a", "b", "c", "d")
	if sum != 3 || !ok {
		t.Errorf("sum %v, %t", sum, ok)
	}
}

func TestUptime(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, emptyService)
	q := &request{console: c, lang: c.words.pick("en", "")}
	for reported, want := range map[string]string{"": "", "a week": "a week", "5 days": "5 days", "0 seconds": "0 seconds", "59 seconds": "59 seconds", "61 seconds": "1 minute",
		"7300 seconds": "2 hours", "169200 seconds": "47 hours", "172800 seconds": "2 days"} {
		if got := q.uptime(reported); got != want {
			t.Errorf("%q is shown as %q, want %q", reported, got, want)
		}
	}
}

func TestSparkline_has_a_line_for_each_part_without_a_gap(t *testing.T) {
	t.Parallel()
	points := []point{{Value: 0, OK: true}, {Value: 10, OK: true}, {}, {Value: 5, OK: true}, {}, {Value: 10, OK: true}, {Value: 10, OK: true}}
	want := []string{"0.0,23.0 20.0,1.0", "100.0,1.0 120.0,1.0"}
	if diff := cmp.Diff(want, sparkline(points)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	for _, none := range [][]point{nil, {{Value: 1, OK: true}}, {{}, {}}} {
		if lines := sparkline(none); lines != nil {
			t.Errorf("%v: %q", none, lines)
		}
	}
	if flat := sparkline([]point{{OK: true}, {OK: true}}); flat[0] != "0.0,23.0 120.0,23.0" {
		t.Errorf("zero: %q", flat)
	}
}

func TestPayloadForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		payload, wanted string
		whole           bool
		form, forms     string
	}{
		{`{"a":1}`, "", true, asJSON, "json text hex"},
		{`{"a":1}`, "hex", true, asHex, "json text hex"},
		{`{"a":1}`, "json", false, asText, "text hex"},
		{` [1]`, "", true, asJSON, "json text hex"},
		{`1`, "", true, asText, "text hex"},
		{"", "", true, asText, "text hex"},
		{"\x00", "", true, asHex, "text hex"},
		{"\xff", "json", true, asHex, "text hex"},
		{"\xff", "text", true, asText, "text hex"},
		{"x", "<script>", true, asText, "text hex"},
	} {
		form, forms := payloadFormOf([]byte(c.payload), c.wanted, c.whole)
		if form != c.form || strings.Join(forms, " ") != c.forms {
			t.Errorf("%q as %q: %s of %v, want %s of %s", c.payload, c.wanted, form, forms, c.form, c.forms)
		}
	}
	for _, c := range []struct{ payload, form, want string }{
		{"a\r\nb\x00\u202e", asText, "a\nb␀⟨U+202E⟩"},
		{`{"a":"\u202e` + "\u202e" + `"}`, asJSON, "{\n  \"a\": \"\\u202e⟨U+202E⟩\"\n}"},
		{"\x00\xff", asHex, "00000000  00 ff                                             |..|"},
	} {
		if got := shownPayload([]byte(c.payload), c.form); got != c.want {
			t.Errorf("%q as %s: %q, want %q", c.payload, c.form, got, c.want)
		}
	}
	if got := hexLine([]byte{1, 2, 255}, 2); got != "01 02 …" {
		t.Errorf("line %q", got)
	}
	if got := shortened("äöü", 2); got != "äö…" || shortened("äöü", 3) != "äöü" {
		t.Errorf("shortened %q", got)
	}
}

func TestPublishBody(t *testing.T) {
	t.Parallel()
	f := form{Fields: []field{{Name: "topic", Kind: kindText}, {Name: "payload", Kind: kindLong}, {Name: "encoding", Kind: kindSelect},
		{Name: "qos", Kind: kindSelect}, {Name: "retain", Kind: kindCheckbox}, {Name: "userProperties", Kind: kindLines}}}
	for _, c := range []struct {
		payload, encoding, properties string
		want                          map[string]any
		field                         string
	}{
		{"x", "text", "", map[string]any{"payload": "x", "encoding": "text"}, ""},
		{"{}", "json", "", map[string]any{"payload": "{}", "encoding": "text"}, ""},
		{"0A ff", "hex", "", map[string]any{"payload": "Cv8=", "encoding": "base64"}, ""},
		{"AA\n==", "base64", "", map[string]any{"payload": "AA==", "encoding": "base64"}, ""},
		{"x", "text", "a=1\r\nb==", map[string]any{"payload": "x", "encoding": "text",
			"userProperties": []map[string]string{{"name": "a", "value": "1"}, {"name": "b", "value": "="}}}, ""},
		{"{", "json", "", nil, "body.payload"},
		{"0", "hex", "", nil, "body.payload"},
		{"x", "text", "a", nil, "body.userProperties"},
	} {
		posted := url.Values{"topic": {"t"}, "payload": {c.payload}, "encoding": {c.encoding}, "qos": {"1"}, "userProperties": {c.properties}}
		got, bad := publishBody(f, posted)
		if c.field != "" {
			if bad == nil || bad.Field != c.field {
				t.Errorf("%q as %s: error %+v, want one of %s", c.payload, c.encoding, bad, c.field)
			}
			continue
		}
		c.want["topic"], c.want["qos"], c.want["retain"] = "t", 1, false
		if diff := cmp.Diff(c.want, got); diff != "" || bad != nil {
			t.Errorf("%q as %s: error %+v (-want +got):\n%s", c.payload, c.encoding, bad, diff)
		}
	}
}

func TestConnectionChanges(t *testing.T) {
	t.Parallel()
	f := form{Fields: []field{{Name: "name", Kind: kindText, Required: true}, {Name: "username", Kind: kindText}, {Name: "ca_cert", Kind: kindLong},
		{Name: "password", Kind: kindPassword}, {Name: "client_key", Kind: kindLong}, {Name: "clear-password", Kind: kindCheckbox},
		{Name: "clear-client_key", Kind: kindCheckbox}, {Name: "topictree", Kind: kindCheckbox}}}
	got := connectionChanges(f, url.Values{"name": {"n"}, "ca_cert": {"a\r\nb"}, "clear-password": {"true"}, "client_key": {"k"}, "clear-client_key": {"true"}})
	want := map[string]any{"name": "n", "description": nil, "username": nil, "ca_cert": "a\nb", "client_cert": nil, "server_fingerprint": nil, "password": nil, "client_key": "k", "topictree": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = connectionChanges(f, url.Values{"name": {"n"}, "password": {""}, "client_key": {""}})
	want = map[string]any{"name": "n", "description": nil, "username": nil, "ca_cert": nil, "client_cert": nil, "server_fingerprint": nil, "topictree": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without secrets (-want +got):\n%s", diff)
	}
}

func TestBanBody(t *testing.T) {
	t.Parallel()
	f := form{Fields: []field{{Name: "kind", Kind: kindSelect}, {Name: "value", Kind: kindText, Required: true}, {Name: "expires_at", Kind: kindSelect}}}
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))
	for choice, want := range map[string]map[string]any{
		"":      {"kind": "address", "value": "::1"},
		"1d":    {"kind": "address", "value": "::1", "expires_at": "2026-02-01T11:00:00Z"},
		"never": {"kind": "address", "value": "::1"},
	} {
		if diff := cmp.Diff(want, banBody(f, url.Values{"kind": {"address"}, "value": {"::1"}, "expires_at": {choice}}, now)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", choice, diff)
		}
	}
}

func TestReadTrees(t *testing.T) {
	t.Parallel()
	one, err := readTrees([]byte(`{"publishTopics":{"count":2,"data":[{"topic":"a"}]},"subscribeTopics":{"count":1,"data":[{"topic":"a/#","clients":3}]}}`))
	if err != nil || len(one) != 1 || one[0].Number != 0 || one[0].PublishTopics.Count != 2 || one[0].SubscribeTopics.Data[0].Clients != 3 {
		t.Errorf("one tree: %+v, %v", one, err)
	}
	nodes, err := readTrees([]byte(" [{},{}]\n"))
	if err != nil || len(nodes) != 2 || nodes[1].Number != 2 {
		t.Errorf("two nodes: %+v, %v", nodes, err)
	}
}

// TestValidity checks what is said of the end of a certificate: never that no days are left.
func TestValidity(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	for in, want := range map[time.Duration]cell{
		-73 * time.Hour:     {Text: "expired 3 days ago, at 2026-01-28 08:00:00 UTC", State: "bad"},
		-10 * time.Second:   {Text: "expired 10 seconds ago, at 2026-01-31 08:59:50 UTC", State: "bad"},
		10 * time.Hour:      {Text: "expires today, in 10 hours, at 2026-01-31 19:00:00 UTC", State: "warn"},
		23 * time.Hour:      {Text: "expires in 23 hours, at 2026-02-01 08:00:00 UTC", State: "warn"},
		31 * 24 * time.Hour: {Text: "expires in 31 days, at 2026-03-03 09:00:00 UTC", State: "good"},
	} {
		if diff := cmp.Diff(want, q.validity(now.Add(in), now)); diff != "" {
			t.Errorf("%s before its end: -want +got:\n%s", in, diff)
		}
	}
}

// TestConnectionTerms checks that messages of the API about a connection name the fields of the
// form, and that what only looks like a member stays.
func TestConnectionTerms(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	for message, want := range map[string]string{
		`not for "url.example": use that name in the url, or pin it as server_fingerprint`: `not for "url.example": use that name in “Address”, or pin it as “Pinned certificate (SHA-256 fingerprint)”`,
		"must be given again, since url changes":                                           "must be given again, since “Address” changes",
		"is required with client_key":                                                      "is required with “Key of the client certificate”",
		"ca_cert_file cannot be read":                                                      "ca_cert_file cannot be read",
	} {
		if got := q.inConnectionTerms(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	if got := inFormTerms("give ca_cert", form{}.label); got != "give ca_cert" {
		t.Errorf("without the field: %q", got)
	}
	refused := &calledService{responses: map[string]*Response{"testBroker": success(`{"error":"use that name in the url, or as server_fingerprint","steps":[],"certificates":[]}`)}}
	page := html.UnescapeString(newTestConsole(t, refused.call).post("broker-new", url.Values{"do": {"test"}, "url": {"mqtts://a"}}).Body.String())
	if want := "use that name in “Address”, or as “Pinned certificate (SHA-256 fingerprint)”"; !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
}

// TestJobOutcome checks that a job that tried every object is not called completed if it changed
// none, or not all, of them.
func TestJobOutcome(t *testing.T) {
	t.Parallel()
	for job, want := range map[string]string{
		`{"state":"completed","total":2,"done":2}`:            `<span class="state good"><svg[^>]*><use[^>]*></use></svg>Completed</span>`,
		`{"state":"completed","total":1,"done":1,"failed":1}`: `<span class="state bad"><svg[^>]*><use[^>]*></use></svg>Failed</span>`,
		`{"state":"completed","total":3,"done":3,"failed":1}`: `<span class="state warn"><svg[^>]*><use[^>]*></use></svg>Partly done</span>`,
		`{"state":"failed","total":3,"done":1}`:               `<span class="state bad"><svg[^>]*><use[^>]*></use></svg>Failed</span>`,
		`{"state":"cancelled","total":3,"done":1,"failed":1}`: `<span class="state warn"><svg[^>]*><use[^>]*></use></svg>Stopped</span>`,
		`{"state":"running","total":3,"done":1,"failed":1}`:   `<(td|dd)><span>Running</span></(td|dd)>`,
	} {
		service := &calledService{responses: map[string]*Response{"getJob": success(job), "listJobs": success(`[` + job + `]`)}}
		c := newTestConsole(t, service.call)
		for _, name := range []string{"job", "jobs"} {
			if page := c.open(name).Body.String(); !regexp.MustCompile(want).MatchString(page) {
				t.Errorf("%s: the page %s lacks %s", job, name, want)
			}
		}
	}
}

// TestListenerFingerprint checks that the fingerprint of a certificate is written as elsewhere,
// and that an id of another broker stays.
func TestListenerFingerprint(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{"listListeners": success(`[{"id":7,"tls":true,"connections":1200,"certs":[` +
		`{"certificate_id":"` + strings.Repeat("5ec6", 16) + `","notAfter":1769860800000},{"certificate_id":"c-1"}]},{"id":8,"certs":[]}]`)}}
	page := newTestConsole(t, service.call).open("listeners").Body.String()
	for _, want := range []string{"SHA-256 fingerprint <code>" + strings.Repeat("5E:C6:", 15) + "5E:C6</code>", " <code>c-1</code>", "expired ", `<td class="number">1,200</td>`,
		`<td class="number"></td>`, `/listeners/7/certificate" download="listener-7.pem"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "/listeners/8/certificate") || strings.Count(page, "expired ") != 1 {
		t.Errorf("a listener without a certificate leads to one, or an unknown end has passed:\n%s", page)
	}
}

func TestDenialsOf(t *testing.T) {
	t.Parallel()
	var all []denialRecord
	for range 30 {
		all = append(all, denialRecord{ClientID: "a"}, denialRecord{ClientID: "b"})
	}
	if own := denialsOf(all, "a"); len(own) != sessionDenials || own[0].ClientID != "a" || denialsOf(all, "c") != nil {
		t.Errorf("denials: %+v", own)
	}
}

// TestTermsOfSettings checks that a feature that a setting forbids is explained with the label of
// the setting, and the units of $SYS values.
func TestTermsOfSettings(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	shown := shownFeatures(nil, []missingFeature{{"topic-tree", "the broker keeps no topic tree, and the connection's member topictree forbids making one",
		"set the connection's member topictree to true: the tree is then made of what the broker publishes"}}, q.lang)[0]
	label := q.t("connection.field.topictree")
	for _, text := range []string{shown.Reason, shown.Remedy} {
		if strings.Contains(text, "member") || !strings.Contains(text, label) {
			t.Errorf("%q does not name the setting %q", text, label)
		}
	}
	for topic, want := range map[string]string{"$SYS/broker/bytes/received": "B", "$SYS/broker/store/messages/bytes": "B", "$SYS/broker/heap/current": "B",
		"$SYS/broker/load/bytes/sent/1min": "B/min", "$SYS/broker/load/connections/5min": "/min", "$SYS/broker/clients/total": "", "$SYS/broker/version": ""} {
		if got := sysUnit(topic); got != want {
			t.Errorf("%s: unit %q, want %q", topic, got, want)
		}
	}
}
