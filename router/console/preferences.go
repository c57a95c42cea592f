package console

import (
	"fmt"
	"time"

	"signalbox/handlers/zones"
)

// preferences are the settings of a user for the console.
type preferences struct {
	Theme               string `json:"theme"`
	Language            string `json:"language"`
	TimeZone            string `json:"time_zone"`
	Density             string `json:"density"`
	PageSize            int    `json:"page_size"`
	Shortcuts           bool   `json:"shortcuts"`
	FirstStepsDismissed bool   `json:"first_steps_dismissed"`
}

// loadPreferences loads the caller's preferences; where there are none the defaults apply.
func (q *request) loadPreferences() {
	q.prefs = preferences{Theme: "system", Density: "normal", PageSize: 50, Shortcuts: true}
	if err := q.get("getPreferences", nil, &q.prefs); err != nil {
		q.console.log.DebugContext(q.http.Context(), "the preferences of a user cannot be read", "error", err)
	}
}

// zone returns the time zone in which the caller reads times: UTC, unless another one was chosen.
// Forms, and what streams store over time, stay in UTC.
func (q *request) zone() *time.Location {
	zone, err := zones.Load(q.prefs.TimeZone)
	if err != nil { // it was checked when it was stored
		return time.UTC
	}
	return zone
}

// preferencesForm changes the caller's preferences.
func (q *request) preferencesForm() form {
	options := func(key string, values ...string) []option {
		var all []option
		for _, v := range values {
			all = append(all, option{v, q.t("preferences." + key + "." + v)})
		}
		return all
	}
	languages := []option{{"", q.t("preferences.language.browser")}, {"en", "English"}, {"de", "Deutsch"}, {"fr", "Français"}, {"es", "Español"}}
	sizes := []option{{"25", "25"}, {"50", "50"}, {"100", "100"}}
	return q.newFormOf("preferences", "save",
		field{Name: "theme", Kind: kindSelect, Value: q.prefs.Theme, Options: options("theme", "system", "light", "dark")},
		field{Name: "language", Kind: kindSelect, Value: q.prefs.Language, Options: languages},
		field{Name: "time_zone", Kind: kindText, Value: q.prefs.TimeZone},
		field{Name: "density", Kind: kindSelect, Value: q.prefs.Density, Options: options("density", "compact", "normal", "comfortable")},
		field{Name: "page_size", Kind: kindSelect, Value: fmt.Sprint(q.prefs.PageSize), Options: sizes},
		field{Name: "shortcuts", Kind: kindCheckbox, Checked: q.prefs.Shortcuts})
}

// savePreferences stores the posted preferences.
func savePreferences(q *request) (string, error) {
	body := q.preferencesForm().body(q.http.PostForm, "language", "time_zone")
	for _, size := range pageSizes {
		if q.posted("page_size") == fmt.Sprint(size) {
			body["page_size"] = size
		}
	}
	return done("account", "preferences_saved", ""), q.do("setPreferences", nil, body)
}
