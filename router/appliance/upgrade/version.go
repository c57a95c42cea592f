package upgrade

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/mod/semver"
)

// Version is what a program prints about itself.
type Version struct {
	Name   string `json:"name"` // as of git describe
	Commit string `json:"commit"`
	Date   string `json:"date"` // of the commit, RFC 3339
}

// String returns the version as it is shown.
func (v Version) String() string { return fmt.Sprintf("%s (%s)", v.Name, v.Date) }

var printed = regexp.MustCompile(`^signalbox (\S+) \(commit (\S+), (\S+)\)\s*$`)

// ParseVersion reads what "signalbox version" prints.
func ParseVersion(text string) (Version, error) {
	m := printed.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("it has no version, so it cannot be said which program is newer: build it with scripts/build (it printed %.100q)", text)
	}
	return Version{Name: m[1], Commit: m[2], Date: m[3]}, nil
}

// startTime bounds how long a program may take to print its version.
const startTime = 30 * time.Second

// VersionOf runs a program, and returns its version.
func VersionOf(ctx context.Context, program string) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	out, err := Run(ctx, program, "version")
	if err != nil {
		return Version{}, err
	}
	v, err := ParseVersion(out)
	if err != nil {
		return Version{}, fmt.Errorf("%s: %w", program, err)
	}
	return v, nil
}

// Run runs a program to its end without the settings of this process, and returns what it
// has printed. Its error has the last line of standard error.
func Run(ctx context.Context, program string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.Getenv("TMPDIR")}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(stderr.Bytes())
		return "", fmt.Errorf("%s %s: %w: %s", program, args[0], err, text[bytes.LastIndexByte(text, '\n')+1:])
	}
	return stdout.String(), nil
}

// described is a version as of git describe: that of a tag, and the number of commits
// after it.
var described = regexp.MustCompile(`^(v\d+\.\d+\.\d+.*?)(?:-(\d+)-g[0-9a-f]+)?(?:-dirty)?$`)

// Compare returns whether v is older (-1), newer (+1) or as new as another version (0). Versions
// that have a tag are compared by it, all others by the dates of their commits.
func (v Version) Compare(other Version) (int, error) {
	tag, after := split(v.Name)
	otherTag, otherAfter := split(other.Name)
	if tag != "" && otherTag != "" {
		return cmp.Or(semver.Compare(tag, otherTag), cmp.Compare(after, otherAfter)), nil
	}
	date, err := time.Parse(time.RFC3339, v.Date)
	if err != nil {
		return 0, fmt.Errorf("version %s has no date, so it cannot be said which program is newer: build it with scripts/build", v.Name)
	}
	otherDate, err := time.Parse(time.RFC3339, other.Date)
	if err != nil {
		return 0, fmt.Errorf("version %s has no date, so it cannot be said which program is newer: build it with scripts/build", other.Name)
	}
	return date.Compare(otherDate), nil
}

// split returns the tag of a version, "" if it has none, and the number of commits after it.
func split(name string) (tag string, after int) {
	m := described.FindStringSubmatch(name)
	if m == nil || !semver.IsValid(m[1]) {
		return "", 0
	}
	after, _ = strconv.Atoi(m[2]) // "" is 0
	return m[1], after
}
