package console

import (
	"strconv"
	"strings"
)

// uptime returns the time that a broker reports in the form "3600 seconds", in its largest
// unit, and any other text as it is.
func (q *request) uptime(reported string) string {
	number, isSeconds := strings.CutSuffix(reported, " seconds")
	seconds, err := strconv.Atoi(number)
	switch {
	case !isSeconds || err != nil || seconds < 0:
		return reported
	case seconds >= 48*3600:
		return q.t("duration.days", seconds/(24*3600))
	case seconds >= 3600:
		return q.duration(seconds / 3600 * 3600)
	case seconds >= 60:
		return q.duration(seconds / 60 * 60)
	}
	return q.duration(seconds)
}

// duration returns a number of seconds in the largest unit that divides it.
func (q *request) duration(seconds int) string {
	switch {
	case seconds >= 3600 && seconds%3600 == 0:
		return q.t("duration.hours", seconds/3600)
	case seconds >= 60 && seconds%60 == 0:
		return q.t("duration.minutes", seconds/60)
	}
	return q.t("duration.seconds", seconds)
}
