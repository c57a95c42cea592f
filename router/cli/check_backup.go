package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// backupAge is the metric with the age of the last verified backup. A monitoring system can
// read it with the token of the configuration (http.metrics_token), which does not end.
const backupAge = "signalbox_backup_age_seconds"

func measureBackup(ctx context.Context, t *tree, p *place) (seconds int64, text string, err error) {
	s, err := t.connect(&p.connection)
	if err != nil {
		return 0, "", err
	}
	metrics, err := s.raw(ctx, t.operation("getMetrics").Path, nil)
	if err != nil {
		return 0, "", err
	}
	for line := range strings.Lines(string(metrics)) {
		number, found := strings.CutPrefix(line, backupAge+" ")
		if !found {
			continue
		}
		age, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return 0, "", err
		}
		if math.IsInf(age, 1) {
			return noValue, "there is no verified backup", nil
		}
		return int64(age), fmt.Sprintf("the last verified backup is %s old", time.Duration(age)*time.Second), nil
	}
	return 0, "", errors.New("the service makes no backups: backup.directory is not set")
}
