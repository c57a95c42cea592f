// Package conformance looks at a broker from outside: raw packets go in, and
// what comes back is held against MQTT 3.1, 3.1.1 and 5. Every test names the
// statements of the standard that it shows; engine/CONFORMANCE.md lists all of
// them.
//
// It holds tests only. It must not reach into the broker: what it wants to know
// it asks on the wire. The same tests run against Mosquitto, which shows that
// they ask for nothing of their own invention; where it and the standard
// disagree, the standard counts and the test says so.
package conformance

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox/scripts/suite"
)

// The versions of MQTT, as the byte in CONNECT says them.
const (
	v31  byte = 3
	v311 byte = 4
	v5   byte = 5
)

// Which versions a test is about.
var (
	everyVersion = []byte{v31, v311, v5}
	beforeFive   = []byte{v31, v311}
	onlyFive     = []byte{v5}
)

// subjectsVariable names the environment variable that chooses the brokers
// under test: a comma-separated list of "embedded" and "mosquitto".
const subjectsVariable = "CONFORMANCE_SUBJECTS"

// defaultSubjects is who is tested unless told otherwise.
const defaultSubjects = "embedded,mosquitto"

// sideBySide is how many tests run at once: they wait more than they work.
const sideBySide = 16

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", fmt.Sprint(sideBySide)); err != nil { // the command line may say otherwise
		panic(err)
	}
	suite.Main(m)
}

// scene is where one test plays: a broker, one way to reach it and one version
// of MQTT. The broker is shared by the scenes of a test, so topics and client
// ids are made by name, filter and id.
type scene struct {
	*testing.T
	subject *subject
	version byte
	ws      bool
	mark    string // sets the names of this scene apart
	dials   int
}

var scenes atomic.Int64

// play runs a test against every broker, over TCP and over WebSocket, in each
// of the versions. The scenes of one broker run one after the other: a test that
// waits for parallel ones of its own gives up its place to the next test, and all
// brokers would be there at once. Mosquitto, which is here to show that the test
// is right, is asked over TCP only.
func play(t *testing.T, versions []byte, test func(s *scene), opts ...option) {
	t.Helper()
	t.Parallel()
	for _, kind := range kinds(t) {
		s, why := newSubject(kind, opts)
		if why != "" {
			t.Logf("not held against %s: %s", kind, why)
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s.start(t)
			playOn(t, s, versions, test)
		})
	}
}

func playOn(t *testing.T, broker *subject, versions []byte, test func(s *scene)) {
	t.Helper()
	for _, ws := range []bool{false, true} {
		if ws && broker.kind == kindMosquitto {
			continue
		}
		for _, version := range versions {
			t.Run(fmt.Sprintf("%s/v%d", transport(ws), version), func(t *testing.T) {
				mark := fmt.Sprintf("s%d", scenes.Add(1))
				test(&scene{T: t, subject: broker, version: version, ws: ws, mark: mark})
			})
		}
	}
}

func transport(ws bool) string {
	if ws {
		return "ws"
	}
	return "tcp"
}

// kinds lists the brokers under test.
func kinds(t *testing.T) []string {
	t.Helper()
	chosen := os.Getenv(subjectsVariable)
	if chosen == "" {
		chosen = defaultSubjects
	}
	list := strings.Split(chosen, ",")
	for _, kind := range list {
		if !slices.Contains([]string{kindEmbedded, kindMosquitto}, kind) {
			t.Fatalf("%s: there is no broker %q", subjectsVariable, kind)
		}
	}
	return list
}

// each runs a case of a table within a scene, one after the other.
func (s *scene) each(name string, test func(s *scene)) {
	s.Helper()
	s.Run(name, func(t *testing.T) {
		mark := fmt.Sprintf("s%d", scenes.Add(1))
		test(&scene{T: t, subject: s.subject, version: s.version, ws: s.ws, mark: mark})
	})
}

// topic makes a topic name or filter of this scene's own: it puts a level in
// front that no other scene uses.
func (s *scene) topic(rest string) string { return s.mark + "/" + rest }

// id makes a client identifier of this scene's own. It has no more than the 23
// letters and digits that every server takes [MQTT-3.1.3-5].
func (s *scene) id(name string) string { return s.mark + name }

// on tells whether the broker is of that kind. Tests ask only where a broker
// is known to deviate, and say how.
func (s *scene) on(kind string) bool { return s.subject.kind == kind }

// five tells whether the scene plays in MQTT 5.
func (s *scene) five() bool { return s.version == v5 }
