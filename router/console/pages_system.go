package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
)

// systemPages are about the process of the service and its machine.
func systemPages() []*page {
	return []*page{
		{path: "/ui/system", name: "system", role: root, help: "troubleshooting", calls: []string{"getSystem", "getDisk", "getLog"}, view: viewSystem, fragments: []string{"parts", "log"}},
	}
}

// systemRecord is the process of the service as the API returns it.
type systemRecord struct {
	Version    string   `json:"version"`
	Platform   string   `json:"platform"`
	Processors int64    `json:"processors"`
	PID        int      `json:"pid"`
	Started    string   `json:"started_at"`
	Addresses  []string `json:"addresses"`
	DataDir    string   `json:"data_dir"`
	Install    string   `json:"install"`
	Program    string   `json:"program"`
	Unit       string   `json:"unit"`
	Parts      []struct {
		Name    string `json:"name"`
		Ready   bool   `json:"ready"`
		Problem string `json:"problem"`
	} `json:"parts"`
	Databases []systemDatabase `json:"databases"`
	Upgrade   *struct {
		State string `json:"state"`
		Time  string `json:"time"`
		From  string `json:"from"`
		To    string `json:"to"`
	} `json:"last_upgrade"`
}

// systemDatabase is a database of the service.
type systemDatabase struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Log    int64  `json:"log_size"`
	Schema int64  `json:"schema"`
}

// logLine is a line of the log.
type logLine struct {
	Time       string `json:"time"`
	Level      string `json:"level"`
	Message    string `json:"message"`
	Attributes string `json:"attributes"`
}

// State returns how the level is shown.
func (l *logLine) State() string {
	return map[string]string{"error": "bad", "warn": "warn"}[l.Level]
}

// systemView is the process of the service, and the end of its log.
type systemView struct {
	frame
	System    part[systemRecord]
	Disk      part[diskSpace]
	Log       part[[]logLine] // the newest first
	Level     string
	Levels    []option
	Facts     []fact
	Parts     []fact
	Upgrade   []fact
	HowTo     string   // what to do to update the program
	Commands  []string // that do it
	Databases int64    // bytes of all of them
}

// shownLines is how many lines of the log are shown.
const shownLines = 200

func viewSystem(q *request) (view, error) {
	v := &systemView{Level: cmp.Or(q.query.Get("level"), "warn")}
	for _, level := range []string{"warn", "error", "info", "debug"} {
		v.Levels = append(v.Levels, option{Value: level, Text: q.t("system.level." + level)})
	}
	query := url.Values{"count": {strconv.Itoa(shownLines)}, "level": {v.Level}}
	var g parts
	load(&g, q, &v.System, "getSystem", nil)
	load(&g, q, &v.Disk, "getDisk", nil)
	load(&g, q, &v.Log, "getLog", query)
	g.wait()
	slices.Reverse(v.Log.Value)
	if v.System.Err == nil {
		v.describe(q)
	}
	return v, nil
}

// describe completes the view with the texts about the process.
func (v *systemView) describe(q *request) {
	s := &v.System.Value
	v.Facts = []fact{plainly(q.t("system.version"), s.Version), {q.t("system.started"), cell{Time: s.Started}}, plainly(q.t("system.platform"), q.t("system.on", s.Platform, s.Processors))}
	for i, address := range s.Addresses {
		name := "API"
		if i > 0 {
			name = q.t("system.part.broker")
		}
		v.Facts = append(v.Facts, of(name, address))
	}
	v.Facts = append(v.Facts, of(q.t("system.program"), s.Program), of(q.t("system.data_dir"), s.DataDir))
	if s.Unit != "" {
		v.Facts = append(v.Facts, of(q.t("system.unit"), s.Unit))
	}
	if v.Disk.Value.Free != nil {
		v.Facts = append(v.Facts, fact{q.t("overview.disk"), q.freeSpace(*v.Disk.Value.Free)})
	}
	for _, p := range s.Parts {
		c := cell{Text: q.t("system.ready"), State: "good"}
		if !p.Ready {
			c = cell{Text: q.t("system.not_ready"), State: "bad", Quiet: p.Problem}
		}
		v.Parts = append(v.Parts, fact{q.known("system.part."+p.Name, p.Name), c})
	}
	for _, d := range s.Databases {
		v.Databases += d.Size + d.Log
	}
	v.describeUpgrade(q)
}

// The commands that update the program, by how it was installed.
var updateCommands = map[string][]string{
	"package": {"sudo apt install ./signalbox_VERSION_ARCHITECTURE.deb", "sudo dnf install ./signalbox-VERSION.ARCHITECTURE.rpm"},
	"program": {"signalbox upgrade --dry-run FILE", "signalbox upgrade FILE"},
}

// describeUpgrade completes the view with the last upgrade, and how to make the next one.
func (v *systemView) describeUpgrade(q *request) {
	s := &v.System.Value
	v.HowTo, v.Commands = q.t("system.update."+s.Install), updateCommands[s.Install]
	u := s.Upgrade
	if u == nil {
		return
	}
	c := cell{Text: q.known("system.upgrade."+u.State, u.State), State: "good"}
	if u.State != "installed" && u.State != "rolled back" {
		c.State, c.Quiet = "warn", q.t("system.upgrade.interrupted")
	}
	v.Upgrade = []fact{{q.t("system.upgrade"), c}, {q.t("system.upgrade.time"), cell{Time: u.Time}}, plainly(q.t("system.upgrade.from"), u.From), plainly(q.t("system.upgrade.to"), u.To)}
}
