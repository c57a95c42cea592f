package console

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// inspectPages are those about the clients of a broker and their sessions.
func inspectPages() []*page {
	return []*page{
		{path: brokerPath + "sessions", name: "sessions", role: viewer, help: "embedded-broker",
			change: editor, calls: []string{"inspectClients", "topClients", "createJob"}, view: viewSessions, fragments: []string{"list"},
			actions: map[string]action{"ask-disconnect": askSelected("disconnect"), "ask-end": askSelected("end"),
				"disconnect": changeSelected("disconnect"), "end": changeSelected("end")}},
		{path: brokerPath + "session", name: "session", group: "sessions", role: viewer, help: "embedded-broker",
			calls: []string{"inspectClient", "listSubscriptions", "listDenials"}, view: viewSession},
		{path: brokerPath + "session/disconnect", name: "session-disconnect", template: "form", group: "sessions", role: editor,
			calls: []string{"inspectClient", "disconnectClient"}, view: viewDisconnect, actions: map[string]action{"disconnect": disconnect}},
		{path: brokerPath + "session/end", name: "session-end", template: "form", group: "sessions", role: editor,
			calls: []string{"inspectClient", "forgetClient"}, view: viewEndSession, actions: map[string]action{"end": endSession}},
		{path: brokerPath + "session/subscribe", name: "session-subscribe", template: "form", group: "sessions", role: editor,
			calls: []string{"inspectClient", "subscribeClient"}, view: viewSubscribe, actions: map[string]action{"subscribe": subscribe}},
		{path: brokerPath + "session/unsubscribe", name: "session-unsubscribe", template: "form", group: "sessions", role: editor,
			calls: []string{"unsubscribeClient"}, view: viewUnsubscribe, actions: map[string]action{"unsubscribe": unsubscribe}},
		{path: brokerPath + "subscriptions", name: "subscriptions", role: viewer, help: "embedded-broker",
			calls: []string{"listSubscriptions"}, view: viewSubscriptions, fragments: []string{"list"}},
		{path: brokerPath + "bans", name: "bans", role: viewer, help: "embedded-broker",
			calls: []string{"listBans"}, view: viewBans, fragments: []string{"list"}},
		{path: brokerPath + "bans/new", name: "ban-new", template: "form", group: "bans", role: admin, help: "embedded-broker",
			calls: []string{"addBan"}, view: viewNewBan, actions: map[string]action{"ban": addBan}},
		{path: brokerPath + "bans/lift", name: "ban-lift", template: "form", group: "bans", role: admin,
			calls: []string{"deleteBan"}, view: viewLiftBan, actions: map[string]action{"lift": liftBan}},
	}
}

// sessionsView is the clients that are connected, and the sessions of others.
type sessionsView struct {
	frame
	Sessions part[[]sessionRecord]
	Paging   paging
	Filter   fieldFilter
	States   []option
	State    string
	Queued   bool
	Dropped  bool
	Rates    bool // messages per second are measured
	Figures  bool // the broker reports subscriptions, messages in flight and dropped ones

	By       string  // the figure by which the highest are shown, "" for the list of all
	Orders   []order // the list of all and those by a figure
	Top      part[topClients]
	Matching string       // link to what can be done with all that match the filter
	Bulk     []bulkAction // what can be done with selected sessions
	Selected selection
	Ask      *formView // asks whether to do it, nil if nothing was selected
	Choice   columnChoice
}

// order is a way to list the sessions.
type order struct{ By, Text, Link string }

// bulkAction is a button of the bar of a selection.
type bulkAction struct {
	Do, Text string
	Danger   bool
}

// sessionOrders are the figures by which sessions can be ordered; "" lists all by client
// id.
var sessionOrders = []string{"", "queue", "dropped", "rate", "inflight", "subscriptions"}

// fieldFilter is the filter of a list by one of its fields.
type fieldFilter struct {
	Value   string
	Target  string
	Targets []option
	Active  bool // something other than the whole list is shown
}

// filterBy returns the filter in the query; the texts of the targets are
// "GROUP.target.NAME".
func (q *request) filterBy(group string, targets ...string) fieldFilter {
	f := fieldFilter{Value: q.query.Get("filterValue"), Target: q.query.Get("filterTarget")}
	if !slices.Contains(targets, f.Target) {
		f.Target = targets[0]
	}
	f.Active = f.Value != ""
	for _, t := range targets {
		f.Targets = append(f.Targets, option{t, q.t(group + ".target." + t)})
	}
	return f
}

// sessionRecord is an entry of inspectClients. Times are epoch milliseconds, 0 for never.
type sessionRecord struct {
	Username        string `json:"username"`
	ClientID        string `json:"clientid"`
	Address         string `json:"address"`
	Protocol        string `json:"protocol"`
	ProtocolVersion string `json:"protocolVersion"`
	Connected       bool   `json:"connected"`
	LastConnect     int64  `json:"lastConnect"`
	LastDisconnect  int64  `json:"lastDisconnect"`
	Queues          struct {
		BytesOut    int64 `json:"bytesOut"`
		MessagesOut int64 `json:"messagesOut"`
		MessagesMax int64 `json:"messagesMax"`
	} `json:"queues"`
	Listener         *listenerAddress `json:"listener"`
	NumSubscriptions *int64           `json:"numSubscriptions"` // nil, as the next two, if the broker does not report them
	NumDropped       *int64           `json:"numDropped"`
	Inflight         *struct {
		MessagesIn  int64 `json:"messagesIn"`
		MessagesOut int64 `json:"messagesOut"`
	} `json:"inflight"`
	RateIn  *float64 `json:"rateIn"` // messages per second, nil if they were not measured
	RateOut *float64 `json:"rateOut"`
}

// InflightCount returns the number of messages in flight in both directions, nil if the broker does not
// report it.
func (s *sessionRecord) InflightCount() *int64 {
	if s.Inflight == nil {
		return nil
	}
	return new(s.Inflight.MessagesIn + s.Inflight.MessagesOut)
}

// listenerAddress is the listener of a connection.
type listenerAddress struct {
	Port        int    `json:"port"`
	BindAddress string `json:"bind_address"`
}

// String returns the address with the port, or the path of a Unix socket.
func (l *listenerAddress) String() string {
	if l.Port == 0 {
		return l.BindAddress
	}
	return net.JoinHostPort(l.BindAddress, strconv.Itoa(l.Port))
}

// Version returns the protocol with its version, as the standard is called: "MQTT 3.1.1".
func (s *sessionRecord) Version() string {
	return strings.TrimSpace(s.Protocol + " " + strings.TrimPrefix(s.ProtocolVersion, "v"))
}

// HasAccount reports whether access control has a client of the username.
func (s *sessionRecord) HasAccount() bool { return hasAccount(s.Username) }

// hasAccount reports whether the username is one, and not the mark for clients without
// authentication.
func hasAccount(username string) bool { return username != "" && username != "<anonymous>" }

func viewSessions(q *request) (view, error) {
	v := &sessionsView{Filter: q.filterBy("sessions", "clientid", "username", "address"),
		State: q.query.Get("state"), Queued: q.query.Get("queued") == "true",
		Dropped: q.query.Get("dropped") == "true", Rates: q.query.Get("rates") == "true"}
	for _, state := range []string{"all", "connected", "disconnected"} {
		v.States = append(v.States, option{state, q.t("sessions.state." + state)})
	}
	v.Filter.Active = v.Filter.Active || v.Queued || v.Dropped || v.State != "" && v.State != "all"
	v.fillBulk(q)
	for _, by := range sessionOrders {
		v.Orders = append(v.Orders, order{by, q.t("sessions.by." + cmp.Or(by, "id")), q.orderLink(by)})
	}
	if by := q.query.Get("by"); by != "" && slices.Contains(sessionOrders, by) {
		v.By = by
		v.loadTop(q)
		return v, nil
	}
	v.Choice = q.columns(q.t("sessions.clientid"), q.t("sessions.state"), q.t("sessions.username"), q.t("sessions.protocol"), q.t("session.subscriptions"), q.t("sessions.queue"), q.t("session.dropped"))
	query := q.listQuery("filterValue", "filterTarget", "state", "queued", "dropped", "rates")
	var g parts
	load(&g, q, &v.Sessions, "inspectClients", query)
	g.wait()
	v.Paging = q.pagingOf("inspectClients", v.Sessions.Total)
	v.Figures = slices.ContainsFunc(v.Sessions.Value, func(s sessionRecord) bool { return s.NumSubscriptions != nil })
	return v, nil
}

// orderLink returns the link to the sessions in an order.
func (q *request) orderLink(by string) string {
	if by == "" {
		return q.linkInBroker("sessions")
	}
	return q.linkInBroker("sessions", "by", by)
}

// fillBulk sets what can be done with selected sessions, and the question that follows.
func (v *sessionsView) fillBulk(q *request) {
	if q.role() < editor {
		return
	}
	v.Selected = q.selection("selected", "list")
	v.Bulk = []bulkAction{{Do: "ask-disconnect", Text: q.t("sessions.bulk.disconnect")}, {Do: "ask-end", Text: q.t("sessions.bulk.end"), Danger: true}}
	if v.Filter.Active && !v.Queued && !v.Dropped {
		v.Matching = q.linkInBroker("sessions/matching", "filterTarget", v.Filter.Target, "filterValue", v.Filter.Value, "state", v.State)
	}
	if q.shown != "" {
		v.Ask = q.selectionForm(q.shown)
	}
}

// about returns the query with the client id that a page is about.
func (q *request) about() url.Values { return url.Values{"clientid": {q.query.Get("clientid")}} }

// toSession returns the link to the page of the client that this page is about.
func (q *request) toSession() string {
	return q.linkInBroker("session", "clientid", q.query.Get("clientid"))
}

// sessionPage returns the same page for a redirect.
func (q *request) sessionPage() string {
	return q.inBroker("session", "clientid", q.query.Get("clientid"))
}

// sessionAction returns a page that does something with the session of a client, which
// must exist.
func (q *request) sessionAction(text string, f form) (*formView, *sessionDetail, error) {
	var d sessionDetail
	if err := q.get("inspectClient", q.about(), &d); err != nil {
		return nil, nil, err
	}
	facts := []fact{of(q.t("sessions.clientid"), d.ClientID), of(q.t("sessions.username"), d.Username), of(q.t("sessions.address"), d.Address)}
	return &formView{Intro: []string{text}, Facts: facts, Form: f}, &d, nil
}

func viewDisconnect(q *request) (view, error) {
	v, _, err := q.sessionAction(q.t("session.disconnect_effect"), q.deletion("disconnect", "session.disconnect", q.toSession()))
	return v, err
}

func disconnect(q *request) (string, error) {
	if err := q.do("disconnectClient", q.about(), nil); err != nil {
		return "", err
	}
	return done(q.inBroker("sessions"), "client_disconnected", q.query.Get("clientid")), nil
}

func viewEndSession(q *request) (view, error) {
	var d sessionDetail
	if err := q.get("inspectClient", q.about(), &d); err != nil {
		return nil, err
	}
	facts := []fact{
		of(q.t("sessions.clientid"), d.ClientID),
		plainly(q.t("session.subscriptions"), q.lang.number(d.NumSubscriptions)),
		plainly(q.t("session.queued"), q.lang.number(d.Queues.MessagesOut+d.Inflight.MessagesOut)),
	}
	return &formView{Intro: []string{q.t("session.end_effect")}, Facts: facts, Form: q.deletion("end", "session.end", q.toSession())}, nil
}

func endSession(q *request) (string, error) {
	if err := q.do("forgetClient", q.about(), nil); err != nil {
		return "", err
	}
	return done(q.inBroker("sessions"), "session_ended", q.query.Get("clientid")), nil
}
