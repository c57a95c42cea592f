package backup

import (
	"testing"
	"time"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("test", 2*3600)
	at := func(text string) time.Time {
		v, err := time.ParseInLocation("2006-01-02 15:04", text, zone)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		schedule, last, now string
		due                 bool
	}{
		{"6h", "2026-11-22 12:00", "2026-11-22 17:59", false},
		{"6h", "2026-11-22 12:00", "2026-11-22 18:00", true},
		{"daily 03:00", "2026-11-22 03:00", "2026-11-23 02:59", false},
		{"daily 03:00", "2026-11-22 03:00", "2026-11-23 03:00", true},
		{"daily 03:00", "2026-11-20 03:00", "2026-11-22 02:59", true}, // one was missed
		{"daily 03:00", "2026-11-22 02:59", "2026-11-22 03:00", true},
		{"Sunday 03:00", "2026-11-22 03:00", "2026-11-29 02:59", false}, // both are Sundays
		{"sunday 03:00", "2026-11-22 03:00", "2026-11-29 03:00", true},
		{"saturday 23:30", "2026-11-22 00:00", "2026-11-28 23:29", false},
		{"saturday 23:30", "2026-11-22 00:00", "2026-11-28 23:30", true},
		{"", "2020-01-01 00:00", "2026-11-22 00:00", false},
	} {
		s, err := ParseSchedule(c.schedule)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Due(at(c.last), at(c.now)); got != c.due {
			t.Errorf("%q, last %s, now %s: due %v", c.schedule, c.last, c.now, got)
		}
	}
	for _, text := range []string{"59s", "daily", "daily 3", "daily 24:00", "weekly 03:00", "x", "-1h", "03:00"} {
		if _, err := ParseSchedule(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	var times []time.Time // four a day for 400 days, the newest first
	newest := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	for i := range 4 * 400 {
		times = append(times, newest.Add(time.Duration(-6*i)*time.Hour))
	}
	for text, want := range map[string]int{"7d": 7, "4w": 4, "12m": 12, "2y": 2, "8h": 8, "1d": 1, "2d,1w": 2,
		"7d,4w,12m": 21} { // the newest is all of the first day, week and month; the others differ but for one
		k, err := ParseKeep(text)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, kept := range k.kept(times) {
			if kept {
				n++
			} else if i == 0 {
				t.Errorf("%s: the newest is not kept", text)
			}
		}
		if n != want {
			t.Errorf("%s: %d are kept, want %d", text, n, want)
		}
	}
	for _, text := range []string{"7", "d", "0d", "-1d", "7x", "7d,", "1001d", "7 d"} {
		if _, err := ParseKeep(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
