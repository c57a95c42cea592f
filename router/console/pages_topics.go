package console

import (
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// topicPages are those about topics and messages.
func topicPages() []*page {
	return []*page{
		{path: brokerPath + "topics", name: "topics", role: viewer, help: "brokers",
			calls: []string{"getBroker", "listTopicLevel", "listTopicValues"}, view: viewTopics, fragments: []string{"watched", "list"}},
		{path: brokerPath + "topics/all", name: "topics-all", group: "topics", role: viewer, help: "brokers",
			calls: []string{"getBroker", "listTopics"}, view: viewAllTopics, fragments: []string{"list"}},
		{path: brokerPath + "retained", name: "retained", role: viewer, help: "embedded-broker",
			calls: []string{"listRetained"}, view: viewRetained, fragments: []string{"list"}},
		{path: brokerPath + "retained/message", name: "retained-message", group: "retained", role: viewer,
			calls: []string{"listRetained"}, view: viewRetainedMessage},
		{path: brokerPath + "retained/delete", name: "retained-delete", template: "form", group: "retained", role: editor,
			calls: []string{"listRetained", "deleteRetained"}, view: viewDeleteRetained, actions: map[string]action{"delete": deleteRetained}},
		{path: brokerPath + "retained/delete-matching", name: "retained-delete-matching", template: "form", group: "retained", role: editor,
			calls: []string{"listRetained", "deleteRetained"}, view: viewDeleteMatching, actions: map[string]action{"delete": deleteMatching}},
		{path: brokerPath + "messages", name: "messages", role: viewer, change: editor, help: "embedded-broker",
			calls: []string{"publish"}, view: viewMessages, actions: map[string]action{"publish": publish}, fragments: []string{"messages"}},
		{path: brokerPath + "ttl", name: "ttl", role: viewer, change: editor, help: "brokers",
			calls: []string{"getTTL", "setTTL"}, view: viewTTL, actions: map[string]action{"set": setTTL}},
	}
}

// topicsView is one level of the topic tree, or the topics that a search finds.
type topicsView struct {
	frame
	Ask    bool // looking may subscribe to all topics, which the caller has not accepted yet
	Watch  bool
	Level  part[topicLevel]
	Rows   []topicRow
	Paging paging
	Prefix string
	Path   []crumb
	Search string
	Forms  []payloadForm // in which payloads are shown
	watchList
}

// topicLevel is the response of listTopicLevel.
type topicLevel struct {
	Prefix  string       `json:"prefix"`
	Topics  int          `json:"topics"`
	Total   int          `json:"total"`
	Cut     bool         `json:"cut"`
	Entries []topicEntry `json:"entries"`
}

// topicEntry is an entry of a level.
type topicEntry struct {
	Name   string       `json:"name"`
	Topic  string       `json:"topic"`
	Topics int          `json:"topics"`
	Rate   *float64     `json:"rate"`
	Last   *topicRecord `json:"last"`
}

// topicRecord is a topic with its latest message.
type topicRecord struct {
	Topic        string `json:"topic"`
	Payload      string `json:"payload"`
	Encoding     string `json:"encoding"`
	QoS          int    `json:"qos"`
	Retain       bool   `json:"retain"`
	LastModified int64  `json:"lastModified"`
	Messages     int64  `json:"messages"`
}

// topicRow is an entry of the level as it is shown.
type topicRow struct {
	Name, Topic string
	Topics      int    // below it
	Below       string // link to the level below, "" for none
	Last        *topicRecord
	Value       string // its payload, on one line
	Full        string // its payload; "" if Value is all of it
	Rate        string // messages a second, "" if that is not known
	Watch       string // link that adds the topic to the watch list, "" if it is on it or that is full
}

// crumb is a part of the path to a level.
type crumb struct{ Name, Link string }

// rowPayload is how much of a payload a table shows, in characters.
const rowPayload = 120

func viewTopics(q *request) (view, error) {
	v := &topicsView{Prefix: q.query.Get("prefix"), Search: q.query.Get("search"), Watch: q.query.Get("watch") == "1"}
	var err error
	if v.Ask, err = q.mustAsk(); err != nil || v.Ask {
		return v, err
	}
	var g parts
	load(&g, q, &v.Level, "listTopicLevel", q.listQuery("prefix", "search", "nodeid"))
	watched := q.watchedTopics()
	var list part[topicLevel]
	var values part[[]topicValues]
	if len(watched) > 0 {
		load(&g, q, &list, "listTopicLevel", q.watchQuery(watched))
		load(&g, q, &values, "listTopicValues", q.watchQuery(watched))
	}
	g.wait()
	v.Paging = q.paging(v.Level.Value.Total)
	v.Path = q.crumbs(v.Prefix)
	as := q.query.Get("as")
	for _, form := range []string{"", asText, asHex} {
		v.Forms = append(v.Forms, payloadForm{Text: q.t("topics.as" + form), Link: q.withQuery("as", form), Current: form == as})
	}
	for _, e := range v.Level.Value.Entries {
		row := q.topicRow(e, as)
		if e.Topics > 0 {
			row.Below = q.level(e.Topic + "/")
		}
		if e.Last != nil && len(watched) < maxWatched && !slices.Contains(watched, e.Topic) {
			row.Watch = q.watching(append(slices.Clip(watched), e.Topic))
		}
		v.Rows = append(v.Rows, row)
	}
	v.watchList = q.watchList(watched, list, values)
	return v, nil
}

// topicRow returns an entry as it is shown.
func (q *request) topicRow(e topicEntry, as string) topicRow {
	row := topicRow{Name: e.Name, Topic: e.Topic, Topics: e.Topics, Last: e.Last}
	if e.Rate != nil {
		row.Rate = q.rate(*e.Rate)
	}
	if e.Last != nil {
		row.Value, row.Full = e.Last.shown(as)
	}
	return row
}

// rate returns messages a second with as many digits as say something.
func (q *request) rate(perSecond float64) string {
	switch {
	case perSecond < 0.005:
		return q.lang.number(0)
	case perSecond < 10:
		return q.lang.number(math.Round(perSecond*100) / 100)
	}
	return q.lang.number(int64(math.Round(perSecond)))
}

// mustAsk reports whether the caller has to accept first that looking at the topics may
// subscribe to all of them, as it does for a broker that keeps no topic tree itself.
func (q *request) mustAsk() (bool, error) {
	if q.query.Get("watch") == "1" {
		return false, nil
	}
	b, err := q.connection()
	return err == nil && !b.Embedded() && b.TopicTree && b.Status.Connected, err
}

// level returns the link to a level of the tree; what else the query holds remains, but
// neither the search nor the position.
func (q *request) level(prefix string) string {
	query := url.Values{"prefix": {prefix}}
	for _, name := range []string{"nodeid", "watch", "as", "size"} {
		if value := q.query.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	query["watched"] = q.watchedTopics()
	return "?" + query.Encode()
}

// crumbs returns the links to the levels above a prefix, which ends with a slash.
func (q *request) crumbs(prefix string) []crumb {
	path := []crumb{{Link: q.level("")}}
	for i, r := range prefix {
		if r == '/' {
			start := strings.LastIndexByte(prefix[:i], '/') + 1
			path = append(path, crumb{Name: prefix[start:i], Link: q.level(prefix[:i+1])})
		}
	}
	return path
}

// shown returns the payload on one line, and in full unless that is all of it.
func (t *topicRecord) shown(as string) (line, full string) {
	b := decodePayload(t.Payload, t.Encoding)
	form, _ := payloadFormOf(b, as, true)
	full = shownPayload(b, form)
	if form == asHex {
		line = hexLine(b, rowPayload/3)
	} else {
		line = show(shortened(string(b), rowPayload))
	}
	if full == line || form == asHex && len(b) <= rowPayload/3 {
		full = ""
	}
	return line, full
}

// shortened returns at most the first n characters of a text.
func shortened(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// allTopicsView is the topics and the subscribed filters as plain lists.
type allTopicsView struct {
	frame
	Ask    bool // as in topicsView
	Trees  part[json.RawMessage]
	Nodes  []nodeTopics
	Paging paging
	Watch  bool // the caller has accepted it
}

// nodeTopics are the lists of one node.
type nodeTopics struct {
	Number          int // of the node in an HP cluster, counted from 1; 0 for a single broker
	PublishTopics   topicList[topicRecord]
	SubscribeTopics topicList[filterRecord]
}

// topicList is a list of the topic tree.
type topicList[T any] struct {
	Count int `json:"count"`
	Data  []T `json:"data"`
}

// filterRecord is a subscribed filter with its number of clients.
type filterRecord struct {
	Topic   string `json:"topic"`
	Clients int    `json:"clients"`
}

func viewAllTopics(q *request) (view, error) {
	v := &allTopicsView{Watch: q.query.Get("watch") == "1"}
	var err error
	if v.Ask, err = q.mustAsk(); err != nil || v.Ask {
		return v, err
	}
	var g parts
	load(&g, q, &v.Trees, "listTopics", q.listQuery("nodeid"))
	g.wait()
	if v.Trees.Err == nil {
		if v.Nodes, err = readTrees(v.Trees.Value); err != nil {
			return nil, err
		}
	}
	total := 0
	for _, n := range v.Nodes {
		total = max(total, n.PublishTopics.Count, n.SubscribeTopics.Count)
	}
	v.Paging = q.paging(total)
	return v, nil
}

// readTrees reads one tree, or an array with one for each node.
func readTrees(raw json.RawMessage) ([]nodeTopics, error) {
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "[") {
		var nodes []nodeTopics
		err := json.Unmarshal(raw, &nodes)
		for i := range nodes {
			nodes[i].Number = i + 1
		}
		return nodes, err
	}
	var one nodeTopics
	return []nodeTopics{one}, json.Unmarshal(raw, &one)
}

// ttlView is the time to live of topics.
type ttlView struct {
	frame
	TTL     part[ttlRecord]
	Seconds int64   // of a single broker
	Nodes   []int64 // of the nodes of an HP cluster, in the order of their numbers
	Form    form
}

// ttlRecord is the response of getTTL: of one broker, or of each node.
type ttlRecord struct {
	Seconds *int64  `json:"ttl_sec"`
	Nodes   []int64 `json:"ttls"`
}

func viewTTL(q *request) (view, error) {
	v := &ttlView{}
	var g parts
	load(&g, q, &v.TTL, "getTTL", q.listQuery("nodeid"))
	g.wait()
	value := ""
	if s := v.TTL.Value.Seconds; s != nil {
		v.Seconds, value = *s, strconv.FormatInt(*s, 10)
	}
	v.Form, v.Nodes = q.ttlForm(value), v.TTL.Value.Nodes
	return v, nil
}

func (q *request) ttlForm(value string) form {
	return q.newForm("set", "save", q.labelled("ttl",
		field{Name: "ttl_sec", Kind: kindNumber, Required: true, Min: "0", Max: "315360000", Value: value})...)
}

func setTTL(q *request) (string, error) {
	if q.posted("ttl_sec") == "" {
		return "", q.invalid("ttl_sec", q.t("ttl.required"))
	}
	query := url.Values{}
	if node := q.query.Get("nodeid"); node != "" {
		query.Set("nodeid", node)
	}
	if err := q.do("setTTL", query, q.ttlForm("").body(q.http.PostForm)); err != nil {
		return "", err
	}
	return done("?"+query.Encode(), "ttl_set", q.posted("ttl_sec")), nil
}
