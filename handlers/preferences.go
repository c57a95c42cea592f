package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/db"
	"signalbox/handlers/auth"
	"signalbox/handlers/zones"
)

// PreferencesRecord is how a user wants the console shown.
type PreferencesRecord struct {
	Theme               string              `json:"theme" enum:"system|light|dark" doc:"Colours: light, dark, or as the system has them." example:"dark"`
	Language            string              `json:"language" enum:"|en|de|fr|es" doc:"Language; empty for that of the browser." example:"de"`
	TimeZone            string              `json:"time_zone" doc:"IANA name of the time zone in which the console writes times; empty for UTC." example:"Europe/Berlin"`
	Density             string              `json:"density" enum:"compact|normal|comfortable" doc:"Height of rows and controls." example:"compact"`
	PageSize            int                 `json:"page_size" enum:"25|50|100" doc:"Rows per page of a table." example:"100"`
	Shortcuts           bool                `json:"shortcuts" doc:"True if keyboard shortcuts are on." example:"true"`
	FirstStepsDismissed bool                `json:"first_steps_dismissed" doc:"True if the list of first steps was dismissed." example:"false"`
	Columns             map[string][]string `json:"columns" doc:"Columns that are shown, in their order, by the name of the table. A table that is absent has its default columns." example:"{\"clients\":[\"username\",\"roles\"]}"`
}

// GetPreferencesRequest is empty.
type GetPreferencesRequest struct{}

// GetPreferences returns the caller's preferences.
func (a *API) GetPreferences(ctx context.Context, _ *GetPreferencesRequest) (PreferencesRecord, error) {
	p, err := a.DB.GetPreferences(ctx, auth.From(ctx).ID)
	return PreferencesRecord(p), err
}

// SetPreferencesRequest has the changes of the caller's preferences.
type SetPreferencesRequest struct {
	Body struct {
		Theme               Opt[string]              `json:"theme" nullable:"true" enum:"system|light|dark" doc:"Colours: light, dark, or as the system has them; null resets it to system." example:"dark"`
		Language            Opt[string]              `json:"language" nullable:"true" enum:"|en|de|fr|es" doc:"Language; empty for that of the browser, to which null resets it." example:"de"`
		TimeZone            Opt[string]              `json:"time_zone" nullable:"true" doc:"IANA name of the time zone in which the console writes times; empty for UTC, to which null resets it." example:"Europe/Berlin"`
		Density             Opt[string]              `json:"density" nullable:"true" enum:"compact|normal|comfortable" doc:"Height of rows and controls; null resets it to normal." example:"compact"`
		PageSize            Opt[int]                 `json:"page_size" nullable:"true" enum:"25|50|100" doc:"Rows per page of a table; null resets it to 50." example:"100"`
		Shortcuts           Opt[bool]                `json:"shortcuts" nullable:"true" doc:"True switches keyboard shortcuts on, to which null resets it." example:"true"`
		FirstStepsDismissed Opt[bool]                `json:"first_steps_dismissed" nullable:"true" doc:"True dismisses the list of first steps; null resets it to false." example:"false"`
		Columns             Opt[map[string][]string] `json:"columns" nullable:"true" doc:"Columns that are shown, in their order, by the name of the table. A table that is absent is unchanged, one with an empty list is reset, and null resets all. Names have 1 to 40 letters, digits, hyphens, underscores and full stops; a table has at most 50 columns, and all columns of a user fit into 16 KiB." example:"{\"clients\":[\"username\",\"roles\"]}"`
	}
}

// Bounds of the columns of a request; db.MaxColumns bounds all that are stored.
const (
	maxTables     = 100
	maxColumns    = 50
	maxColumnName = 40
)

// Validate checks the time zone and the columns.
func (r *SetPreferencesRequest) Validate() (bad []FieldError) {
	if !isTimeZone(r.Body.TimeZone.Value) {
		bad = append(bad, FieldError{"body.time_zone", "is not an IANA time zone, such as Europe/Berlin or UTC"})
	}
	if len(r.Body.Columns.Value) > maxTables {
		return append(bad, FieldError{"body.columns", fmt.Sprintf("must not name more than %d tables", maxTables)})
	}
	for table, columns := range r.Body.Columns.Value {
		if message := checkColumns(table, columns); message != "" {
			bad = append(bad, FieldError{"body.columns", message})
		}
	}
	slices.SortFunc(bad, func(a, b FieldError) int { return strings.Compare(a.Field+a.Message, b.Field+b.Message) })
	return bad
}

// isTimeZone reports whether a name is that of a zone which browsers know too, or empty. A
// machine's own list has more: its local zone, and two other variants of each.
func isTimeZone(name string) bool {
	area, _, nested := strings.Cut(name, "/")
	switch {
	case name == "" || name == "UTC":
		return true
	case !nested || area == "posix" || area == "right":
		return false
	}
	_, err := zones.Load(name)
	return err == nil
}

// checkColumns returns the error text for the columns of a table, or "".
func checkColumns(table string, columns []string) string {
	switch {
	case !isColumnName(table):
		return "has a table whose name is not 1 to 40 letters, digits, hyphens, underscores and full stops"
	case len(columns) > maxColumns:
		return fmt.Sprintf("%s: must not have more than %d columns", table, maxColumns)
	case !slices.ContainsFunc(columns, func(name string) bool { return !isColumnName(name) }):
		return ""
	}
	return table + ": has a column whose name is not 1 to 40 letters, digits, hyphens, underscores and full stops"
}

func isColumnName(name string) bool {
	unknown := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}
	return name != "" && len(name) <= maxColumnName && !strings.ContainsFunc(name, unknown)
}

// SetPreferences changes the given members of the caller's preferences; null resets.
func (a *API) SetPreferences(ctx context.Context, r *SetPreferencesRequest) error {
	b, standard := r.Body, db.DefaultPreferences()
	err := a.DB.UpdatePreferences(ctx, auth.From(ctx).ID, db.PreferencesUpdate{
		Theme: b.Theme.orDefault(standard.Theme), Language: b.Language.orDefault(standard.Language),
		TimeZone: b.TimeZone.orDefault(standard.TimeZone), Density: b.Density.orDefault(standard.Density),
		PageSize: b.PageSize.orDefault(standard.PageSize), Shortcuts: b.Shortcuts.orDefault(standard.Shortcuts),
		FirstStepsDismissed: b.FirstStepsDismissed.orDefault(standard.FirstStepsDismissed),
		Columns:             b.Columns.Value, ResetColumns: b.Columns.Null})
	if errors.Is(err, db.ErrTooLarge) {
		return Invalid(FieldError{"body.columns", fmt.Sprintf("with what is stored exceeds %d bytes; reset tables with empty lists", db.MaxColumns)})
	}
	return err
}
