// Package thresholds has the values from which the console marks a figure and "signalbox check" warns, by
// default.
package thresholds

// Free bytes of a disk.
const (
	DiskWarning  = 1 << 30
	DiskCritical = 128 << 20
)

// Messages in the longest queue of a client.
const (
	QueueWarning  = 1000
	QueueCritical = 10_000
)
