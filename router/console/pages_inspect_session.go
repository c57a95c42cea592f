package console

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/url"
	"slices"
	"strings"
	"time"

	"signalbox/broker/thresholds"
)

// sessionView is all about the session of one client id.
type sessionView struct {
	frame
	Detail        sessionDetail
	Usages        []usage
	Will          *shownWill
	Certificate   *certificate
	Subscriptions part[[]subscriptionRecord]
	Paging        paging
	Denials       part[[]denialRecord]
}

// sessionDetail is the response of inspectClient.
type sessionDetail struct {
	sessionRecord
	NumSubscriptions int64    `json:"numSubscriptions"`
	NumPublished     int64    `json:"numPublished"`
	NumSubscribed    int64    `json:"numSubscribed"`
	NumDropped       int64    `json:"numDropped"`
	BytesPublished   int64    `json:"bytesPublished"`
	BytesSubscribed  int64    `json:"bytesSubscribed"`
	Keepalive        int64    `json:"keepalive"`
	CleanSession     bool     `json:"cleanSession"`
	Subscriptions    []string `json:"subscriptions"`
	Dropped          *struct {
		QueueFull int64 `json:"queueFull"`
		Expired   int64 `json:"expired"`
		TooLarge  int64 `json:"tooLarge"`
		NotStored int64 `json:"notStored"`
	} `json:"dropped"`
	TLS *struct {
		ClientCertificate string `json:"clientCertificate"`
		Version           string `json:"version"`
		Ciphers           string `json:"ciphers"`
	} `json:"tls"`
	Will   *willRecord `json:"will"`
	Queues struct {
		BytesOut    int64 `json:"bytesOut"`
		BytesMax    int64 `json:"bytesMax"`
		MessagesOut int64 `json:"messagesOut"`
		MessagesMax int64 `json:"messagesMax"`
	} `json:"queues"`
	Inflight struct {
		MessagesIn     int64 `json:"messagesIn"`
		MessagesInMax  int64 `json:"messagesInMax"`
		MessagesOut    int64 `json:"messagesOut"`
		MessagesOutMax int64 `json:"messagesOutMax"`
	} `json:"inflight"`
}

// willRecord is a Will message; its payload is base64.
type willRecord struct {
	Topic         string `json:"topic"`
	QoS           int    `json:"qos"`
	Retain        bool   `json:"retain"`
	Payload       string `json:"payload"`
	DelayInterval int64  `json:"delayInterval"`
	Properties    []struct {
		Identifier string `json:"identifier"`
		Name       string `json:"name"`
		Value      string `json:"value"`
	} `json:"properties"`
}

// shownWill is a Will message with its payload as it is shown.
type shownWill struct {
	willRecord
	Body payloadView
}

// usage is how much of a limit is used; a Max of 0 is none.
type usage struct {
	Label, Text string
	Used, Max   int64
}

// certificate is what a page shows of a certificate.
type certificate struct {
	Subject, Issuer string
	Validity        cell // how long it is valid
}

// sessionDenials is how many denials of a client its page lists, and keptDenials how many
// are searched for them: as many as a broker keeps.
const (
	sessionDenials = 10
	keptDenials    = "1000"
)

func viewSession(q *request) (view, error) {
	v := &sessionView{}
	if err := q.get("inspectClient", q.about(), &v.Detail); err != nil {
		return nil, err
	}
	query := q.listQuery()
	query.Set("clientid", v.Detail.ClientID)
	var g parts
	load(&g, q, &v.Subscriptions, "listSubscriptions", query)
	load(&g, q, &v.Denials, "listDenials", url.Values{"count": {keptDenials}})
	g.wait()
	v.Title = q.t("session.heading", show(v.Detail.ClientID))
	v.fillSubscriptions()
	v.Paging = q.pagingOf("listSubscriptions", v.Subscriptions.Total)
	v.Denials.Value = denialsOf(v.Denials.Value, v.Detail.ClientID)
	v.Usages = v.Detail.usages(q.lang)
	if w := v.Detail.Will; w != nil {
		v.Will = &shownWill{willRecord: *w, Body: q.payload(w.Payload, "base64", -1)}
	}
	if t := v.Detail.TLS; t != nil {
		v.Certificate = q.readCertificate(t.ClientCertificate, time.Now())
	}
	return v, nil
}

// fillSubscriptions uses the bare filters if the broker does not list subscriptions.
func (v *sessionView) fillSubscriptions() {
	if e := v.Subscriptions.Err; e == nil || e.Code != "NOT_SUPPORTED" {
		return
	}
	v.Subscriptions = part[[]subscriptionRecord]{Total: len(v.Detail.Subscriptions)}
	for _, topic := range v.Detail.Subscriptions {
		v.Subscriptions.Value = append(v.Subscriptions.Value, subscriptionRecord{ClientID: v.Detail.ClientID, Topic: topic, QoS: -1})
	}
}

// denialsOf returns the newest denials of a client.
func denialsOf(all []denialRecord, clientID string) []denialRecord {
	var own []denialRecord
	for _, d := range all {
		if d.ClientID == clientID && len(own) < sessionDenials {
			own = append(own, d)
		}
	}
	return own
}

// usages returns the figures that have a limit.
func (d *sessionDetail) usages(l *locale) []usage {
	used := func(key string, n, limit int64, format func(int64) string) usage {
		u := usage{Label: l.text("session." + key), Text: format(n), Used: n, Max: limit}
		if limit > 0 {
			u.Text = l.text("session.of", format(n), format(limit))
		}
		return u
	}
	number := func(n int64) string { return l.number(n) }
	return []usage{
		used("queued", d.Queues.MessagesOut, d.Queues.MessagesMax, number),
		used("queued_bytes", d.Queues.BytesOut, d.Queues.BytesMax, l.bytes),
		used("inflight_out", d.Inflight.MessagesOut, d.Inflight.MessagesOutMax, number),
		used("inflight_in", d.Inflight.MessagesIn, d.Inflight.MessagesInMax, number),
	}
}

// readCertificate returns the facts of the first certificate in PEM, nil if there is none.
func (q *request) readCertificate(text string, now time.Time) *certificate {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return &certificate{Subject: c.Subject.String(), Issuer: c.Issuer.String(), Validity: q.validity(c.NotAfter, now)}
}

// soonExpired is how long before its end a certificate is to be renewed.
const soonExpired = thresholds.CertificateDays * 24 * time.Hour

// validity returns the sentence about the end of a certificate, relative to now and as a time.
func (q *request) validity(end, now time.Time) cell {
	key, state, zone := "session.expires", "good", q.zone()
	switch {
	case !end.After(now):
		key, state = "session.expired", "bad"
	case end.In(zone).Format(time.DateOnly) == now.In(zone).Format(time.DateOnly):
		key, state = "session.expires_today", "warn"
	case end.Sub(now) < soonExpired:
		state = "warn"
	}
	return cell{Text: q.t(key, q.lang.relative(now.Sub(end)), end.In(zone).Format("2006-01-02 15:04:05 MST")), State: state}
}

// decodePayload returns the bytes of a payload that is text, or base64 if that is its encoding.
func decodePayload(payload, encoding string) []byte {
	if encoding == "base64" {
		if b, err := base64.StdEncoding.DecodeString(payload); err == nil {
			return b
		}
	}
	return []byte(payload)
}

// viewSubscribe leaves out what only MQTT 5 has for a client with an older version.
func viewSubscribe(q *request) (view, error) {
	v, d, err := q.sessionAction(q.t("session.subscribe_effect"), q.subscribeForm())
	if err == nil && strings.HasPrefix(d.ProtocolVersion, "v3") {
		v.Form.Fields = slices.DeleteFunc(v.Form.Fields, func(f field) bool { return !slices.Contains([]string{"topic", "qos"}, f.Name) })
	}
	return v, err
}

func (q *request) subscribeForm() form {
	return q.actionForm("subscribe", "session.subscribe", q.toSession(), q.labelled("subscribe",
		field{Name: "topic", Kind: kindText, Required: true, Value: q.query.Get("topic")},
		field{Name: "qos", Kind: kindSelect, Value: "0", Options: qosOptions},
		field{Name: "sendRetain", Kind: kindSelect, Value: "always", Options: []option{
			{"always", q.t("subscribe.retain.always")}, {"new", q.t("subscribe.retain.new")}, {"never", q.t("subscribe.retain.never")}}},
		field{Name: "noLocal", Kind: kindCheckbox},
		field{Name: "retainAsPublished", Kind: kindCheckbox},
		field{Name: "subscriptionIdentifier", Kind: kindNumber, Min: "0", Max: "268435455"})...)
}

// qosOptions are the levels of QoS.
var qosOptions = []option{{"0", "0"}, {"1", "1"}, {"2", "2"}}

// numbers makes the members of a body numbers that a select field posted as text.
func numbers(body map[string]any, names ...string) map[string]any {
	for _, name := range names {
		if text, ok := body[name].(string); ok && len(text) == 1 && text >= "0" && text <= "9" {
			body[name] = int(text[0] - '0')
		}
	}
	return body
}

func subscribe(q *request) (string, error) {
	body := numbers(q.subscribeForm().body(q.http.PostForm), "qos")
	body["clientid"] = q.query.Get("clientid")
	if err := q.do("subscribeClient", nil, body); err != nil {
		return "", err
	}
	return done(q.sessionPage(), "subscribed", q.posted("topic")), nil
}

func viewUnsubscribe(q *request) (view, error) {
	facts := []fact{of(q.t("sessions.clientid"), q.query.Get("clientid")), of(q.t("subscribe.field.topic"), q.query.Get("topic"))}
	return &formView{Intro: []string{q.t("session.unsubscribe_effect")}, Facts: facts,
		Form: q.deletion("unsubscribe", "session.unsubscribe", q.toSession())}, nil
}

func unsubscribe(q *request) (string, error) {
	query := q.about()
	query.Set("topic", q.query.Get("topic"))
	if err := q.do("unsubscribeClient", query, nil); err != nil {
		return "", err
	}
	return done(q.sessionPage(), "unsubscribed", q.query.Get("topic")), nil
}
