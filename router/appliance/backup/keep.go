package backup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keep is which backups are kept: the newest of each of the last so many hours, days, weeks,
// months or years that have one. An empty one keeps all.
type Keep []keepRule

type keepRule struct {
	count  int
	period func(time.Time) string // a name, which differs between periods
}

// periods are the periods of Keep, in UTC, by their letter.
var periods = map[byte]func(time.Time) string{
	'h': func(t time.Time) string { return t.Format("2006-01-02 15") },
	'd': func(t time.Time) string { return t.Format(time.DateOnly) },
	'w': func(t time.Time) string {
		year, week := t.ISOWeek()
		return fmt.Sprint(year, " ", week)
	},
	'm': func(t time.Time) string { return t.Format("2006-01") },
	'y': func(t time.Time) string { return t.Format("2006") },
}

// maxKept bounds the count of a rule.
const maxKept = 1000

var errKeep = errors.New(`must be numbers of hours, days, weeks, months and years, as in "7d,4w,12m"`)

// ParseKeep parses a list such as "7d,4w,12m". "" keeps all.
func ParseKeep(text string) (k Keep, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			return nil, errKeep
		}
		period, known := periods[one[len(one)-1]]
		n, err := strconv.Atoi(one[:len(one)-1])
		if err != nil || !known || n < 1 || n > maxKept {
			return nil, errKeep
		}
		k = append(k, keepRule{n, period})
	}
	return k, nil
}

// kept reports for each time, the newest first, whether its backup is kept.
func (k Keep) kept(times []time.Time) []bool {
	keep := make([]bool, len(times))
	for _, rule := range k {
		last, n := "", 0
		for i, t := range times {
			if p := rule.period(t.UTC()); p != last && n < rule.count {
				keep[i], last, n = true, p, n+1
			}
		}
	}
	return keep
}
