// Package thresholds has the values from which the console marks a figure, and the checks and reports of
// an installation warn, by default.
package thresholds

// CertificateDays is how many days before its end a certificate is reported.
const CertificateDays = 30

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
