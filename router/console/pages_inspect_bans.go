package console

import (
	"net/url"
	"time"
)

// bansView is the bans in force.
type bansView struct {
	frame
	Bans   part[[]banRecord]
	Paging paging
}

// banRecord is an entry of listBans.
type banRecord struct {
	Kind      string `json:"kind"`
	Value     string `json:"value"`
	Reason    string `json:"reason"`
	CreatedAt string `json:"created_at"`
	CreatedBy string `json:"created_by"`
	ExpiresAt string `json:"expires_at"`
}

func viewBans(q *request) (view, error) {
	v := &bansView{}
	var g parts
	load(&g, q, &v.Bans, "listBans", q.listQuery())
	g.wait()
	v.Paging = q.pagingOf("listBans", v.Bans.Total)
	return v, nil
}

// banTimes are the choices of how long a ban lasts.
var banTimes = []struct {
	name string
	time time.Duration
}{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"1d", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"30d", 30 * 24 * time.Hour}}

func (q *request) banForm() form {
	kinds := []option{{"clientid", q.t("bans.kind.clientid")}, {"username", q.t("bans.kind.username")}, {"address", q.t("bans.kind.address")}}
	times := []option{{"", q.t("bans.time.never")}}
	for _, t := range banTimes {
		times = append(times, option{t.name, q.t("bans.time." + t.name)})
	}
	back := q.linkInBroker("bans")
	return q.deletion("ban", "bans.add", back, q.labelled("bans",
		field{Name: "kind", Kind: kindSelect, Value: q.query.Get("kind"), Options: kinds},
		field{Name: "value", Kind: kindText, Required: true, Value: q.query.Get("value")},
		field{Name: "reason", Kind: kindText},
		field{Name: "expires_at", Kind: kindSelect, Options: times})...)
}

func viewNewBan(q *request) (view, error) {
	return &formView{Intro: []string{q.t("bans.effect")}, Form: q.banForm()}, nil
}

// banBody returns the body of addBan: the posted form names how long the ban lasts, not
// its end.
func banBody(f form, posted url.Values, now time.Time) map[string]any {
	body := f.body(posted)
	delete(body, "expires_at")
	for _, t := range banTimes {
		if posted.Get("expires_at") == t.name {
			body["expires_at"] = now.Add(t.time).UTC().Format(time.RFC3339)
		}
	}
	return body
}

func addBan(q *request) (string, error) {
	if err := q.do("addBan", nil, banBody(q.banForm(), q.http.PostForm, time.Now())); err != nil {
		return "", err
	}
	return done(q.inBroker("bans"), "ban_added", q.posted("value")), nil
}

func viewLiftBan(q *request) (view, error) {
	kind, value := q.query.Get("kind"), q.query.Get("value")
	return &formView{Intro: []string{q.t("bans.lift_effect")}, Facts: []fact{of(q.known("bans.kind."+kind, kind), value)},
		Form: q.actionForm("lift", "bans.lift", q.linkInBroker("bans"))}, nil
}

func liftBan(q *request) (string, error) {
	value := q.query.Get("value")
	if err := q.do("deleteBan", url.Values{"kind": {q.query.Get("kind")}, "value": {value}}, nil); err != nil {
		return "", err
	}
	return done(q.inBroker("bans"), "ban_lifted", value), nil
}
