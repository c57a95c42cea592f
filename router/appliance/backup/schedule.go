package backup

import (
	"errors"
	"strings"
	"time"
)

// minInterval bounds how often backups are made.
const minInterval = time.Minute

// everyDay is the weekday of a schedule that is due each day.
const everyDay = time.Weekday(-1)

// Schedule is when backups are made; the zero value is never.
type Schedule struct {
	every   time.Duration // 0 for a time of day
	weekday time.Weekday
	at      time.Time // whose hour and minute count
	set     bool
}

var errSchedule = errors.New(`must be a duration of at least 1m, as in "6h", or a time of day, as in "daily 03:00" or "sunday 03:00"`)

// ParseSchedule parses an interval ("6h"), or a time of each day or of a day of the week
// ("daily 03:00", "sunday 03:00"). "" is never.
func ParseSchedule(text string) (Schedule, error) {
	if text == "" {
		return Schedule{}, nil
	}
	day, clock, isTime := strings.Cut(strings.ToLower(text), " ")
	if !isTime {
		every, err := time.ParseDuration(text)
		if err != nil || every < minInterval {
			return Schedule{}, errSchedule
		}
		return Schedule{every: every, set: true}, nil
	}
	at, err := time.Parse("15:04", strings.TrimSpace(clock))
	weekday, known := weekdayOf(day)
	if err != nil || !known {
		return Schedule{}, errSchedule
	}
	return Schedule{weekday: weekday, at: at, set: true}, nil
}

func weekdayOf(name string) (time.Weekday, bool) {
	if name == "daily" {
		return everyDay, true
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(d.String(), name) {
			return d, true
		}
	}
	return 0, false
}

// IsSet reports whether backups are made at all.
func (s Schedule) IsSet() bool { return s.set }

// Interval returns the time between two backups; 0 if none are made.
func (s Schedule) Interval() time.Duration {
	switch {
	case !s.set, s.every > 0:
		return s.every
	case s.weekday == everyDay:
		return 24 * time.Hour
	}
	return 7 * 24 * time.Hour
}

// Due reports whether a backup must be made at now, in whose time zone the times of day
// are, if the last one was made at last. A time that passed while no service ran counts.
func (s Schedule) Due(last, now time.Time) bool {
	switch {
	case !s.set:
		return false
	case s.every > 0:
		return now.Sub(last) >= s.every
	}
	return last.Before(s.latest(now))
}

// latest returns the last scheduled time that is not after now.
func (s Schedule) latest(now time.Time) time.Time {
	year, month, day := now.Date()
	step := 1
	if s.weekday != everyDay {
		step = 7
		day -= int(now.Weekday()-s.weekday+7) % 7
	}
	at := time.Date(year, month, day, s.at.Hour(), s.at.Minute(), 0, 0, now.Location())
	if at.After(now) {
		at = time.Date(year, month, day-step, s.at.Hour(), s.at.Minute(), 0, 0, now.Location())
	}
	return at
}
