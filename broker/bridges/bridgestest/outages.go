package bridgestest

import (
	"sync"
	"testing"

	"signalbox/broker/bridges"
)

// DriveOverOutages is Drive with two outages of the target: it is stopped between two batches,
// and killed during one.
func DriveOverOutages(t testing.TB, c bridges.Connector, entries []*bridges.Entry, size int, stop, kill, start func()) Outcome {
	t.Helper()
	count := len(entries)
	var restart sync.WaitGroup
	outages := 0
	o := Drive(t, c, entries, size, func(left int) {
		switch {
		case outages == 0 && left < count*3/4:
			outages++
			stop()
			restart.Go(start)
		case outages == 1 && left < count/2:
			outages++
			restart.Wait()
			restart.Go(func() {
				kill()
				start()
			})
		}
	})
	restart.Wait()
	return o
}
