package console

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
)

// transferPages import and export access control as a whole.
func transferPages() []*page {
	const help = "migration"
	return []*page{
		{path: brokerPath + "import", name: "import", group: "import", role: admin, help: help, large: true,
			calls: []string{"importAccess", "exportAccess", "getBroker", "listClients", "listGroups", "listRoles"}, view: viewImport,
			actions: map[string]action{"check": checkImport,
				"merge": mergeAccess, "replace": replaceAccess}},
		{path: brokerPath + "import/export", name: "export", group: "import", role: admin, help: help, large: true,
			calls: []string{"exportAccess"}, view: viewExport},
	}
}

// importView is the import of a dynamic-security.json: its check, then the import.
type importView struct {
	accessView
	Form    form
	Checked *checkedImport
	Replace form // imports the checked document instead of the existing access control
	Merge   form // adds it
	Has     accessCounts
	Err     *apiError // why what the broker has cannot be counted
	Report  *importReport
}

// checkedImport is a document that waits for its import.
type checkedImport struct {
	ID     string
	Counts accessCounts
}

// accessCounts are numbers of objects of access control.
type accessCounts struct {
	Clients, Groups, Roles int
	Defaults               bool // a document has the default access
}

// importReport is what importAccess returned.
type importReport struct {
	Clients  int      `json:"clients"`
	Groups   int      `json:"groups"`
	Roles    int      `json:"roles"`
	Warnings []string `json:"warnings"`
}

func viewImport(q *request) (view, error) {
	v := &importView{Form: q.newFormOf("check", "import.check",
		field{Name: "file", Kind: kindFile, Label: q.t("import.file"), Hint: q.t("import.file.hint"), Required: true})}
	v.Form.Upload = true
	v.Report, _ = q.result.(*importReport)
	v.Checked, _ = q.result.(*checkedImport)
	v.Err = v.count(q)
	if v.Missing = q.missing("dynamic-security", v.Err); v.Missing == nil {
		v.Missing = q.missingTransfer()
	}
	if id := q.posted("upload"); v.Checked == nil && v.Report == nil && id != "" { // the import failed: another try
		if document, ok := q.console.uploads.get(id, q.me.ID, q.params["brokerId"]); ok {
			counts, _ := countDocument(document)
			v.Checked = &checkedImport{ID: id, Counts: counts}
		}
	}
	if v.Checked != nil {
		v.Merge, v.Replace = q.importForm(v.Checked.ID, "merge"), q.importForm(v.Checked.ID, "replace")
		v.Replace.Danger = true
	}
	return v, nil
}

// missingTransfer returns why access control cannot be transferred as a whole: only that
// of the embedded broker can be.
func (q *request) missingTransfer() *missingNotice {
	var b brokerRecord
	if q.get("getBroker", nil, &b) != nil || b.Embedded() {
		return nil
	}
	if err := q.get("exportAccess", nil, nil); err != nil {
		return q.missing("", q.asAPIError(err))
	}
	return nil
}

func (q *request) importForm(id, mode string) form {
	return q.newFormOf(mode, "import."+mode, field{Name: "upload", Kind: kindHidden, Value: id})
}

// count counts what the broker has.
func (v *importView) count(q *request) *apiError {
	none := url.Values{"count": {"0"}, "offset": {"0"}, "verbose": {"false"}}
	var clients, groups, roles part[[]string]
	var g parts
	load(&g, q, &clients, "listClients", none)
	load(&g, q, &groups, "listGroups", none)
	load(&g, q, &roles, "listRoles", none)
	g.wait()
	v.Has = accessCounts{Clients: clients.Total, Groups: groups.Total, Roles: roles.Total}
	return clients.Err
}

// checkImport reads the posted document as far as its objects can be counted. Whether it
// is valid as a whole is decided by the import, which changes nothing if it is not.
func checkImport(q *request) (string, error) {
	document := []byte(q.posted("file"))
	counts, err := countDocument(document)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "", q.invalid("file", q.t("import.not_json", lineOf(document, err)))
	}
	if err != nil {
		return "", q.invalid("file", q.t("import.not_dynsec"))
	}
	id := q.console.uploads.keep(q.me.ID, q.params["brokerId"], document)
	q.result = &checkedImport{ID: id, Counts: counts}
	return "", errShow
}

// countDocument counts the objects of a dynamic-security.json.
func countDocument(document []byte) (accessCounts, error) {
	var d struct {
		Clients  []struct{} `json:"clients"`
		Groups   []struct{} `json:"groups"`
		Roles    []struct{} `json:"roles"`
		Defaults *struct{}  `json:"defaultACLAccess"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return accessCounts{}, err
	}
	return accessCounts{len(d.Clients), len(d.Groups), len(d.Roles), d.Defaults != nil}, nil
}

func mergeAccess(q *request) (string, error) { return importAccess(q, false) }

func replaceAccess(q *request) (string, error) { return importAccess(q, true) }

func importAccess(q *request, replace bool) (string, error) {
	document, ok := q.console.uploads.get(q.posted("upload"), q.me.ID, q.params["brokerId"])
	if !ok {
		return "", q.invalid("file", q.t("import.expired"))
	}
	report := &importReport{}
	query := url.Values{"replace": {strconv.FormatBool(replace)}}
	if _, err := q.perform("importAccess", q.params, query, document, report); err != nil {
		return "", err
	}
	q.console.uploads.dropUser(q.me.ID)
	q.result = report
	return "", errShow
}

func viewExport(q *request) (view, error) {
	var document []byte
	if err := q.get("exportAccess", nil, &document); err != nil {
		return nil, err
	}
	return nil, errDownload{"dynamic-security.json", document}
}
