package appliance

import (
	"context"
	"fmt"
	"time"

	"signalbox/router/appliance/backup"
	"signalbox/router/appliance/doctor"
)

// backups are made as the schedule demands.
func (e *examination) backups(context.Context) []doctor.Finding {
	b := newBackups(e.c, e.Version, func() time.Time { return e.now }, nil)
	if !b.isSet() {
		return []doctor.Finding{doctor.Good("backups", "", "the service makes none by itself: backup.directory is not set")}
	}
	all, err := b.directory.List()
	if err != nil {
		return doctor.FailedEach("backups", b.directory.Path, err, "")
	}
	b.all = all
	found := e.damagedBackups(all)
	last := b.lastLocked(e.now)
	age, limit := e.now.Sub(last.Time).Round(time.Second), 2*b.schedule.Interval()
	switch {
	case last.Name == "" && b.schedule.IsSet():
		return append(found, doctor.Warn("backups", b.directory.Path, "has no verified backup, although there is a schedule", "look for the reason in the log of the service, or make one with \"signalbox backup create\""))
	case last.Name == "":
		return append(found, doctor.Good("backups", b.directory.Path, "has no verified backup; there is no schedule"))
	case b.schedule.IsSet() && age > limit:
		return append(found, doctor.Warn("backups", b.directory.Path, fmt.Sprintf("the last verified backup is %s old, more than twice the interval of backup.schedule", age), "look for the reason in the log of the service, or make one with \"signalbox backup create\""))
	}
	return append(found, doctor.Good("backups", b.directory.Path, "the last verified backup is %s old", age))
}

func (e *examination) damagedBackups(all []backup.Entry) (found []doctor.Finding) {
	for _, b := range all {
		if b.State == backup.Damaged {
			found = append(found, doctor.Warn("backups", b.Name, b.Problem, "delete it, and check the disk; make another one with \"signalbox backup create\""))
		}
	}
	return found
}
