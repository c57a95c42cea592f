package console

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// healthLine is a line of the card with the state of a broker: its name, its state, where it leads
// and the rest.
var healthLine = regexp.MustCompile(`(?s)<dt>([^<]*)</dt><dd>(?:<span class="state (\w+)"><svg.*?</svg>)?(?:<a href="(?:\.\./)*([^"]*)">)?(.*?)</dd>`)

// healthOf returns the lines that follow the connection. Times are without what is exact.
func healthOf(page string) []string {
	_, card, _ := strings.Cut(page, `id="state-card"`)
	card, _, _ = strings.Cut(card, "</section>")
	_, card, _ = strings.Cut(card, "<dt>Since")
	lines := []string{}
	for _, m := range healthLine.FindAllStringSubmatch(card, -1) {
		text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ReplaceAll(m[4], "<p ", " · <p "), "")
		text = regexp.MustCompile(`, at \d.*UTC`).ReplaceAllString(text, "")
		lines = append(lines, strings.Join([]string{m[1], m[2], m[3], text}, " | "))
	}
	return lines
}

// TestHealth checks what the overview shows of the health of a broker, and that it asks neither a
// remote broker for what takes long nor for what the caller may not read.
func TestHealth(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	const root, admin = `{"root":true}`, `{"projects":[{"id":"1","role":"admin"}]}`
	at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d+time.Hour).UnixMilli(), 10) }
	backup := func(age time.Duration) string {
		return `{"state":"verified","time":"` + time.Now().Add(-age).Format(time.RFC3339) + `"}`
	}
	stored := func(all, retained string) *Response {
		return success(`{"sysTopics":{"date":1,"topics":{"$SYS/broker/store/messages/count":"` + all + `","$SYS/broker/retained messages/count":"` + retained + `"}}}`)
	}
	embedded := success(`{"type":"on-premise-setup"}`)
	queue := func(n string) *Response { return success(`{"clients":[{"queue":` + n + `}]}`) }
	unsupported := refusal(http.StatusBadRequest, "NOT_SUPPORTED")
	for name, c := range map[string]struct {
		me        string
		responses map[string]*Response
		want      []string
	}{
		"embedded": {root, map[string]*Response{"getBroker": embedded, "getBrokerInfo": stored("1300", "60"), "topClients": queue("1200"),
			"listListeners": success(`[{"certs":[{"notAfter":` + at(90*day) + `},{"certificate_id":"c"}]},{"certs":[{"notAfter":` + at(20*day) + `}]},{}]`),
			"listBackups":   success(`[{"state":"failed"},` + backup(2*day) + `,` + backup(9*day) + `]`), "getDisk": success(`{"free":5368709120}`)},
			[]string{"Certificates | warn | p/1/b/1/listeners | expires in 20 days", "Disk | good | system | 5.0 GiB free", "Last backup | good | backups | 2 days ago",
				"Queues | warn | p/1/b/1/sessions?by=queue | 1,240 messages stored for clients · 1,200 in the longest queue"}},
		"embedded, of an administrator of the project": {admin, map[string]*Response{"getBroker": embedded, "getBrokerInfo": stored("1", "0"), "topClients": queue("10000"),
			"listListeners": success(`[{"certs":[{"notAfter":` + at(-3*day) + `}]}]`), "listBackups": success(`[` + backup(day) + `]`), "getDisk": success(`{"free":1}`)},
			[]string{"Certificates | bad | p/1/b/1/listeners | expired 2 days ago",
				"Queues | bad | p/1/b/1/sessions?by=queue | 1 message stored for clients · 10,000 in the longest queue"}},
		"embedded, with an old backup and empty queues": {root, map[string]*Response{"getBroker": embedded, "getBrokerInfo": stored("5", "7"), "topClients": success(`{"clients":[]}`),
			"listBackups": success(`[` + backup(9*day) + `]`), "getDisk": success(`{"free":1073741824}`)},
			[]string{"Disk | warn | system | 1.0 GiB free", "Last backup | bad | backups | 9 days ago · No newer one is verified", "Queues | good | p/1/b/1/sessions?by=queue | 0 messages stored for clients"}},
		"embedded, which is off": {root, map[string]*Response{"getBroker": embedded, "topClients": unsupported, "listListeners": unsupported, "listBackups": success(`[{"state":"damaged"}]`), "getDisk": success(`{"free":1024}`)},
			[]string{"Disk | bad | system | 1.0 KiB free", "Last backup | bad | backups | No backup is verified"}},
		"remote": {root, map[string]*Response{"getBrokerInfo": stored("12", "2"), "topClients": queue("9"), "listListeners": unsupported, "listBackups": success(`[]`), "getDisk": success(`{"free":1}`)},
			[]string{"Queues |  | p/1/b/1/sessions?by=queue | 10 messages stored for clients"}},
		"remote, without figures": {root, map[string]*Response{"listListeners": success(`[{"tls":true,"certs":[{"certificate_id":"c"}]}]`)}, []string{}},
	} {
		c.responses["me"] = success(c.me)
		service := &calledService{responses: c.responses}
		page := newTestConsole(t, service.call).open("overview").Body.String()
		if diff := cmp.Diff(c.want, healthOf(page)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		isEmbedded := strings.HasPrefix(name, "embedded")
		for operation, want := range map[string]bool{"topClients": isEmbedded, "listBackups": isEmbedded && c.me == root, "getDisk": isEmbedded && c.me == root} {
			if _, did := service.called[operation]; did != want {
				t.Errorf("%s: %s is called: %t", name, operation, did)
			}
		}
	}
}
