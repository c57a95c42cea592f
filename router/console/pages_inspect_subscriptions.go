package console

// subscriptionsView is the subscriptions of all clients.
type subscriptionsView struct {
	frame
	Subscriptions part[[]subscriptionRecord]
	Paging        paging
	Filter        fieldFilter
	Choice        columnChoice
}

// subscriptionRecord is an entry of listSubscriptions; QoS is -1 if it is unknown.
type subscriptionRecord struct {
	ClientID               string `json:"clientid"`
	Username               string `json:"username"`
	Topic                  string `json:"topic"`
	QoS                    int    `json:"qos"`
	NoLocal                bool   `json:"noLocal"`
	RetainAsPublished      bool   `json:"retainAsPublished"`
	RetainHandling         int    `json:"retainHandling"`
	SubscriptionIdentifier int64  `json:"subscriptionIdentifier"`
	Share                  string `json:"share"`
}

func viewSubscriptions(q *request) (view, error) {
	v := &subscriptionsView{Filter: q.filterBy("subscriptions", "topic", "clientid", "username", "share"), Choice: q.columns(q.t("subscriptions.target.topic"), q.t("sessions.clientid"), q.t("sessions.username"), q.t("publish.field.qos"), q.t("subscriptions.target.share"), q.t("subscriptions.options"))}
	var g parts
	load(&g, q, &v.Subscriptions, "listSubscriptions", q.listQuery("filterValue", "filterTarget", "clientid"))
	g.wait()
	v.Paging = q.pagingOf("listSubscriptions", v.Subscriptions.Total)
	return v, nil
}
