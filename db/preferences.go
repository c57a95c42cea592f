package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
)

// MaxColumns bounds the columns of a user's preferences as they are stored, in bytes.
const MaxColumns = 16 << 10

// Preferences are how a user wants the console shown. An empty Language is that of the browser, an
// empty TimeZone is UTC. Columns are the columns shown, by the name of the table; it is never nil.
type Preferences struct {
	Theme               string
	Language            string
	TimeZone            string
	Density             string
	PageSize            int
	Shortcuts           bool
	FirstStepsDismissed bool
	Columns             map[string][]string
}

// DefaultPreferences returns the preferences of a user who has set none.
func DefaultPreferences() Preferences {
	return Preferences{Theme: "system", Density: "normal", PageSize: 50, Shortcuts: true, Columns: map[string][]string{}}
}

// PreferencesUpdate changes the members that are not nil. Columns are merged by table: an
// empty list resets one, and ResetColumns all that were stored before.
type PreferencesUpdate struct {
	Theme               *string
	Language            *string
	TimeZone            *string
	Density             *string
	PageSize            *int
	Shortcuts           *bool
	FirstStepsDismissed *bool
	Columns             map[string][]string
	ResetColumns        bool
}

func (p *Preferences) apply(c PreferencesUpdate) {
	set(&p.Theme, c.Theme)
	set(&p.Language, c.Language)
	set(&p.TimeZone, c.TimeZone)
	set(&p.Density, c.Density)
	set(&p.PageSize, c.PageSize)
	set(&p.Shortcuts, c.Shortcuts)
	set(&p.FirstStepsDismissed, c.FirstStepsDismissed)
	if c.ResetColumns {
		clear(p.Columns)
	}
	maps.Copy(p.Columns, c.Columns)
	maps.DeleteFunc(p.Columns, func(_ string, columns []string) bool { return len(columns) == 0 })
}

// GetPreferences returns the preferences of a user, the defaults if it has set none.
func (d *DB) GetPreferences(ctx context.Context, userID string) (Preferences, error) {
	p, err := scanPreferences(pointRow(ctx, d.point.preferences, userID))
	return p, wrap("get preferences", err)
}

const preferencesQuery = `
	SELECT theme, language, time_zone, density, page_size, shortcuts, first_steps_dismissed, columns
	FROM preferences WHERE user_id = ?`

func scanPreferences(row scanner) (Preferences, error) {
	var p Preferences
	var columns []byte
	err := row.Scan(&p.Theme, &p.Language, &p.TimeZone, &p.Density,
		&p.PageSize, &p.Shortcuts, &p.FirstStepsDismissed, &columns)
	if errors.Is(err, sql.ErrNoRows) {
		return DefaultPreferences(), nil
	}
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(columns, &p.Columns)
}

// UpdatePreferences changes the preferences of a user. ErrNotFound: no such user.
// ErrTooLarge: the columns would exceed MaxColumns.
func (d *DB) UpdatePreferences(ctx context.Context, userID string, c PreferencesUpdate) error {
	return d.write(ctx, "update preferences", func(tx *writeTx) error {
		p, err := scanPreferences(tx.QueryRowContext(ctx, preferencesQuery, userID))
		if err != nil {
			return err
		}
		p.apply(c)
		return storePreferences(ctx, tx, userID, p)
	})
}

func storePreferences(ctx context.Context, tx *writeTx, userID string, p Preferences) error {
	const q = `
		INSERT OR REPLACE INTO preferences (user_id, theme, language, time_zone, density, page_size,
			shortcuts, first_steps_dismissed, columns)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	columns, err := json.Marshal(p.Columns)
	if err != nil {
		return err
	}
	if len(columns) > MaxColumns {
		return ErrTooLarge
	}
	_, err = tx.ExecContext(ctx, q, userID, p.Theme, p.Language, p.TimeZone, p.Density, p.PageSize,
		p.Shortcuts, p.FirstStepsDismissed, string(columns))
	return err
}
