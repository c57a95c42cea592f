package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// retainedView is the retained messages whose topics match a filter.
type retainedView struct {
	frame
	Messages part[[]retainedRecord]
	Rows     []retainedRow
	Paging   paging
	Filter   string
}

// retainedRecord is an entry of listRetained. What the broker does not report is empty.
type retainedRecord struct {
	Topic       string             `json:"topic"`
	Payload     string             `json:"payload"`
	Encoding    string             `json:"encoding"`
	Truncated   bool               `json:"truncated"`
	Size        int64              `json:"size"`
	QoS         *int               `json:"qos"`
	PublishedAt string             `json:"publishedAt"`
	ExpiresAt   string             `json:"expiresAt"`
	ClientID    string             `json:"clientid"`
	Username    string             `json:"username"`
	Properties  *messageProperties `json:"properties"`
}

// messageProperties are the MQTT 5 properties of a message.
type messageProperties struct {
	PayloadFormat   int    `json:"payloadFormat"`
	ContentType     string `json:"contentType"`
	ResponseTopic   string `json:"responseTopic"`
	CorrelationData string `json:"correlationData"`
	UserProperties  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"userProperties"`
}

// retainedRow is an entry of the list with its payload on one line.
type retainedRow struct {
	retainedRecord
	Value string
}

// allTopics is the filter that matches every topic that does not begin with $.
const allTopics = "#"

func viewRetained(q *request) (view, error) {
	v := &retainedView{Filter: cmp.Or(q.query.Get("filter"), allTopics)}
	var g parts
	load(&g, q, &v.Messages, "listRetained", q.listQuery("filter"))
	g.wait()
	v.Paging = q.pagingOf("listRetained", v.Messages.Total)
	for _, m := range v.Messages.Value {
		t := topicRecord{Payload: m.Payload, Encoding: m.Encoding}
		line, _ := t.shown("")
		v.Rows = append(v.Rows, retainedRow{retainedRecord: m, Value: line})
	}
	return v, nil
}

// retainedMessageView is one retained message.
type retainedMessageView struct {
	frame
	Message retainedRecord
	Body    payloadView
}

// retained returns the message of the topic that the page is about.
func (q *request) retained() (retainedRecord, error) {
	var list []retainedRecord
	if err := q.get("listRetained", url.Values{"topic": {q.query.Get("topic")}}, &list); err != nil {
		return retainedRecord{}, err
	}
	if len(list) == 0 || q.query.Get("topic") == "" { // without a topic it is the list of all
		return retainedRecord{}, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: q.t("retained.gone")}
	}
	return list[0], nil
}

func viewRetainedMessage(q *request) (view, error) {
	m, err := q.retained()
	if err != nil {
		return nil, err
	}
	return &retainedMessageView{Message: m, Body: q.payload(m.Payload, m.Encoding, m.Size)}, nil
}

func viewDeleteRetained(q *request) (view, error) {
	m, err := q.retained()
	if err != nil {
		return nil, err
	}
	return &formView{Intro: []string{q.t("retained.delete_effect")},
		Facts: []fact{of(q.t("publish.field.topic"), m.Topic), plainly(q.t("retained.size"), q.lang.bytes(m.Size))},
		Form:  q.deletion("delete", "retained.delete", q.linkInBroker("retained"))}, nil
}

func deleteRetained(q *request) (string, error) {
	topic := q.query.Get("topic")
	if err := q.do("deleteRetained", url.Values{"topic": {topic}}, nil); err != nil {
		return "", err
	}
	return done(q.inBroker("retained"), "retained_deleted", topic), nil
}

// matchesAll reports whether the filter names no level: "#", but "+/#" and "+" as well.
func matchesAll(filter string) bool { return strings.Trim(filter, "+#/") == "" }

// WithoutSystem reports whether the filter does not match topics that begin with $ [MQTT-4.7.2-1].
func (v *retainedView) WithoutSystem() bool {
	return strings.HasPrefix(v.Filter, "#") || strings.HasPrefix(v.Filter, "+")
}

// matchingForm asks for the number of messages, which the page has shown: a list that
// changed since is shown again instead of being deleted.
func (q *request) matchingForm(filter string, count int) form {
	f := q.deletion("delete", "retained.delete", q.linkInBroker("retained", "filter", filter),
		field{Name: "count", Kind: kindHidden, Value: strconv.Itoa(count)})
	f.Submit = q.t("retained.delete_matching", count)
	return f
}

// countRetained returns the number of retained messages that match the page's filter.
func (q *request) countRetained() (filter string, count int, err error) {
	filter = cmp.Or(q.query.Get("filter"), allTopics)
	var none []retainedRecord
	count, err = q.list("listRetained", url.Values{"filter": {filter}, "count": {"0"}}, &none)
	return filter, count, err
}

func viewDeleteMatching(q *request) (view, error) {
	filter, count, err := q.countRetained()
	if err != nil {
		return nil, err
	}
	f := q.matchingForm(filter, count)
	if matchesAll(filter) {
		f.Confirm = q.t("form.all")
	}
	f.Fields[0].Value = strconv.Itoa(count) // the number that is shown, not the one that was posted
	return &formView{Intro: []string{q.t("retained.matching_effect", count)}, Facts: []fact{of(q.t("retained.filter"), filter)}, Form: f}, nil
}

func deleteMatching(q *request) (string, error) {
	filter, count, err := q.countRetained()
	if err != nil {
		return "", err
	}
	if strconv.Itoa(count) != q.posted("count") {
		return "", &apiError{Status: http.StatusBadRequest, Code: "CONFLICT", Message: q.t("retained.changed")}
	}
	if matchesAll(filter) {
		if err := q.confirmed(q.t("form.all")); err != nil {
			return "", err
		}
	}
	var deleted struct {
		Deleted int `json:"deleted"`
	}
	if _, err := q.perform("deleteRetained", q.params, url.Values{"filter": {filter}}, nil, &deleted); err != nil {
		return "", err
	}
	return done(q.inBroker("retained"), "retained_matching_deleted", q.lang.number(deleted.Deleted)), nil
}
