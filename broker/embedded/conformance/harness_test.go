// Package conformance tests a broker from outside: it sends raw packets, and compares the
// responses with MQTT 3.1, 3.1.1 and 5. Every test names the statements of the standard
// that it shows; engine/CONFORMANCE.md lists all of them.
//
// It contains tests only. It must not use the broker's internals: it observes the broker on
// the wire. The same tests run against Mosquitto, which shows that they do not demand more
// than the standard; where Mosquitto and the standard disagree, the standard decides and
// the test notes it.
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

// The versions of MQTT, as the protocol level of CONNECT.
const (
	v31  byte = 3
	v311 byte = 4
	v5   byte = 5
)

// The versions that tests apply to.
var (
	everyVersion = []byte{v31, v311, v5}
	beforeFive   = []byte{v31, v311}
	onlyFive     = []byte{v5}
)

// subjectsVariable names the environment variable that chooses the brokers
// under test: a comma-separated list of "embedded" and "mosquitto".
const subjectsVariable = "CONFORMANCE_SUBJECTS"

// defaultSubjects are tested if the variable is not set.
const defaultSubjects = "embedded,mosquitto"

// sideBySide is how many tests run at once: they mostly wait.
const sideBySide = 16

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", fmt.Sprint(sideBySide)); err != nil { // the command line may override it
		panic(err)
	}
	suite.Main(m)
}

// scene is the environment of one test: a broker, one transport and one version of MQTT.
// The broker is shared by the scenes of a test, so topics and client identifiers are made
// by topic and id.
type scene struct {
	*testing.T
	subject *subject
	version byte
	ws      bool
	mark    string // separates the names of this scene from others
	dials   int
}

var scenes atomic.Int64

// play runs a test against every broker, over TCP and over WebSocket, in each of the
// versions. The scenes of one broker run one after the other: a test that waits for
// parallel subtests does not count against the limit of parallel tests, and all brokers
// would run at once. Mosquitto, which validates the test, is tested over TCP only.
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

// topic returns a topic name or filter of this scene's own: it prepends a level that no
// other scene uses.
func (s *scene) topic(rest string) string { return s.mark + "/" + rest }

// id returns a client identifier of this scene's own. It has no more than the 23 letters
// and digits that every server accepts [MQTT-3.1.3-5].
func (s *scene) id(name string) string { return s.mark + name }

// on reports whether the broker is of that kind. Tests use it only where a broker is known
// to deviate, and say how.
func (s *scene) on(kind string) bool { return s.subject.kind == kind }

// five reports whether the scene uses MQTT 5.
func (s *scene) five() bool { return s.version == v5 }
