package console

import (
	"slices"
	"time"
)

// backupPages are the backups that the service keeps in its directory.
func backupPages() []*page {
	return []*page{
		{path: "/ui/backups", name: "backups", template: "list", role: root, help: "backup", calls: []string{"listBackups"}, view: viewBackups, fragments: []string{"list"}},
		{path: "/ui/backups/new", name: "backup-new", template: "form", group: "backups", role: root, help: "backup", calls: []string{"createBackup"},
			large: true, view: viewBackupNew, actions: map[string]action{"": createBackup}},
		{path: "/ui/backups/{backupId}/verify", name: "backup-verify", template: "form", group: "backups", role: root, help: "backup", calls: []string{"verifyBackup"},
			large: true, view: viewBackupVerify, actions: map[string]action{"": verifyBackup}},
		{path: "/ui/backups/{backupId}/delete", name: "backup-delete", template: "form", group: "backups", role: root, help: "backup", calls: []string{"deleteBackup"},
			view: viewBackupDelete, actions: map[string]action{"": deleteBackup}},
	}
}

// backupRecord is a backup as the API returns it.
type backupRecord struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Time      string `json:"time"`
	Size      int64  `json:"size"`
	Encrypted bool   `json:"encrypted"`
	WithKey   bool   `json:"with_key"`
	Verified  string `json:"verified_at"`
	Problem   string `json:"problem"`
}

func viewBackups(q *request) (view, error) {
	var all []backupRecord
	if err := q.get("listBackups", nil, &all); err != nil {
		return nil, err
	}
	v := &listView{Intro: q.t("backups.empty"), Add: link{Text: q.t("backups.create"), To: "backups/new", Dialog: true},
		Head: []string{q.t("col.name"), q.t("backups.state"), q.t("backups.time"), q.t("backups.size"), q.t("backups.encryption")}}
	last := newestVerified(all)
	for i, b := range all {
		r := q.backupRow(b)
		if i == last {
			r.Cells[2] = q.newestBackup(b)
		}
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}

// newestVerified returns the index of the newest verified backup in a list with the newest first,
// -1 if there is none.
func newestVerified(all []backupRecord) int {
	return slices.IndexFunc(all, func(b backupRecord) bool { return b.State == "verified" })
}

// oldBackup is the age from which the newest verified backup is marked.
const oldBackup = 7 * 24 * time.Hour

// newestBackup returns the cell for the time of the newest verified backup.
func (q *request) newestBackup(b backupRecord) cell {
	c := cell{Time: b.Time}
	if at, err := time.Parse(time.RFC3339, b.Time); err == nil && time.Since(at) > oldBackup {
		c.State, c.Quiet = "bad", q.t("backups.old")
	}
	return c
}

func (q *request) backupRow(b backupRecord) row {
	state := cell{Text: q.known("backups.state."+b.State, b.State), Warn: b.Problem,
		State: map[string]string{"verified": "good", "damaged": "bad", "failed": "bad", "unverified": "warn"}[b.State]}
	if b.ID == "" { // it does not exist yet, or could not be made
		return row{Cells: []cell{{Text: q.t("backups.none")}, state, {Time: b.Time}, {Text: "–", Number: true}, {Text: "–"}}}
	}
	encryption := cell{Text: q.t("backups.unencrypted")}
	if b.Encrypted {
		encryption.Text = q.t("backups.encrypted")
	}
	if b.WithKey {
		encryption.Quiet = q.t("backups.with_key")
	}
	at := "backups/" + b.ID
	return row{
		Cells: []cell{{Text: b.ID, Code: true}, state, {Time: b.Time}, {Text: q.lang.bytes(b.Size), Number: true}, encryption},
		Actions: []link{{Text: q.t("backups.verify"), To: at + "/verify", Dialog: true}, {Text: q.t("backups.download"), To: "../api/" + at + "/content"},
			{Text: q.t("delete"), To: at + "/delete", Dialog: true}},
	}
}

func viewBackupNew(q *request) (view, error) {
	return &formView{Intro: []string{q.t("backups.create.what")}, Form: q.newForm("", "backups.create"), Back: q.back("backups")}, nil
}

func createBackup(q *request) (string, error) {
	var made backupRecord
	if _, err := q.perform("createBackup", q.params, nil, nil, &made); err != nil || made.State != "verified" {
		return "backups", err
	}
	return done("backups", "backup_created", made.ID), nil
}

func viewBackupVerify(q *request) (view, error) {
	return &formView{Intro: []string{q.t("backups.verify.what", show(q.params["backupId"]))}, Form: q.newForm("", "backups.verify"), Back: q.back("backups")}, nil
}

func verifyBackup(q *request) (string, error) {
	var found backupRecord
	if _, err := q.perform("verifyBackup", q.params, nil, nil, &found); err != nil || found.State != "verified" {
		return "backups", err
	}
	return done("backups", "backup_verified", found.ID), nil
}

func viewBackupDelete(q *request) (view, error) {
	return &formView{Intro: []string{q.t("backups.delete.what", show(q.params["backupId"]))}, Form: q.confirmForm("backups.delete", "", q.root+"/backups")}, nil
}

func deleteBackup(q *request) (string, error) {
	return done("backups", "backup_deleted", q.params["backupId"]), q.do("deleteBackup", nil, nil)
}
