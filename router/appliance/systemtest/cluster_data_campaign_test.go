package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// dataCampaign is a faultCampaign whose load is the data of the platform, which its nodes share: projects are
// created and deleted, registers set and read, and tokens created, used and revoked, through all nodes concurrently. Meanwhile
// messages go through bridges and a stream of a connected broker, and another stream of it is one of the registers.
type dataCampaign struct {
	*faultCampaign
	data     *dataHistory
	tokens   *tokenLoad
	projects *projectLoad
	messages *connectedLoad
	session  string   // of the administrator, at all nodes
	named    []string // ids of the projects whose names are registers
}

const (
	namedProjects = 4 // projects whose names are registers
	namedTables   = 3 // tables of the console whose columns are registers
)

// startDataCampaign has a machine create a cluster that shares the data of the platform, and starts the load. Another
// service then manages the cluster, so that any machine may fail.
func startDataCampaign(t testing.TB, mode string) *dataCampaign {
	t.Helper()
	s := &dataCampaign{faultCampaign: newFaultCampaign(t)}
	s.cluster = newExternalCluster(t)
	s.mode = mode
	for id := range 3 {
		m := newMachine(t, id+1)
		m.shareData = true
		if mode == "full" { // only the leader's other listeners serve clients
			withAdminListener(t, m)
		}
		s.attach(t, m)
		s.machines = append(s.machines, m)
	}
	startAll(t, s.machines...)
	founder := &cluster{machines: s.machines, mode: mode}
	founder.manageFrom(t, s.machines[0], s.machines[1:]...)
	founder.create(t)
	s.adopt(t)
	first := s.machines[0].api
	s.session = first.token
	for _, m := range s.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the session", m.id), func() bool { return m.reads(t, s.session, first.project) })
		m.api.token, m.api.project = s.session, first.project
	}
	s.data = &dataHistory{began: time.Now(), random: s.random, requests: map[string]dataRequest{}}
	s.tokens = &tokenLoad{dataCampaign: s, phases: map[int]map[string]tokenPhase{}}
	s.projects = &projectLoad{dataCampaign: s, requests: map[string]projectRequests{}}
	s.write, s.forget = s.projects.create, s.tokens.forget
	s.others = []func(testing.TB, *machine){s.operate, s.operate, s.tokens.operate, s.tokens.operate}
	for n := range namedProjects {
		s.nameProject(t, s.machines[n%len(s.machines)])
	}
	s.messages = s.startConnectedLoad(t)
	s.start(t)
	return s
}

// adopt has the service that manages the cluster from outside adopt it.
func (s *dataCampaign) adopt(t testing.TB) {
	t.Helper()
	for _, m := range s.machines {
		s.connect(t, m)
	}
	status, answer := s.ask(t, "POST", s.console.inProject("/clusters"), s.body(s.mode))
	var adopted struct{ ID string }
	if err := json.Unmarshal(answer, &adopted); err != nil || status != http.StatusOK {
		t.Fatalf("adopt the cluster: %d %s %v", status, answer, err)
	}
	s.id = adopted.ID
	s.await(t, "active", s.machines...)
}

// nameProject creates a project whose name is a register.
func (s *dataCampaign) nameProject(t testing.TB, m *machine) {
	t.Helper()
	call, name := s.data.since(), s.data.value()
	var made struct{ ID string }
	suite.WaitFor(t, "a project is created", func() bool {
		v, _, answer := s.data.change(t, m, "POST", "/api/projects", object{"name": name})
		return v == acknowledged && json.Unmarshal(answer, &made) == nil
	})
	s.data.add(m, call, dataOperation{register: nameOf(made.ID), sets: true, value: name}, dataResult{})
	s.named = append(s.named, made.ID)
}

// nameOf and columnsOf return the names of registers.
func nameOf(projectID string) string { return "name of project " + projectID }

func columnsOf(table string) string { return "columns of table " + table }

// operate sets or reads a register through a machine.
func (s *dataCampaign) operate(t testing.TB, m *machine) {
	t.Helper()
	n, sets := s.random.IntN(namedProjects+namedTables+1), s.random.IntN(3) == 0
	switch {
	case n == namedProjects+namedTables && sets:
		target := s.data.value()
		s.set(t, m, streamRegister, target, s.messages.path(t, m)+"/streams", object{"streamname": streamRegister, "targettopic": target})
	case n == namedProjects+namedTables:
		s.readStream(t, m)
	case sets && n < namedProjects:
		name := s.data.value()
		s.set(t, m, nameOf(s.named[n]), name, "/api/projects/"+s.named[n], object{"name": name})
	case sets:
		table, column := fmt.Sprint("table-", n), s.data.value()
		s.set(t, m, columnsOf(table), column, "/api/auth/preferences", object{"columns": object{table: []string{column}}})
	case n < namedProjects:
		s.readName(t, m, s.named[n])
	default:
		s.readColumns(t, m, fmt.Sprint("table-", n))
	}
}

// set sets a register through a machine.
func (s *dataCampaign) set(t testing.TB, m *machine, register, value, path string, body object) {
	t.Helper()
	call := s.data.since()
	switch v, id, answer := s.data.change(t, m, "PUT", path, body); v {
	case acknowledged, unconfirmed:
		s.data.add(m, call, dataOperation{register: register, sets: true, value: value}, dataResult{unknown: v == unconfirmed})
	case refusedChange:
		if register == streamRegister && strings.Contains(string(answer), `"CONFLICT"`) { // another node has changed it at the same time
			return
		}
		t.Errorf("node %d refused to set the %s (%s): %s", m.id, register, id, answer)
	}
}

// readName reads the name of a project at a machine, and reports whether the response is current.
func (s *dataCampaign) readName(t testing.TB, m *machine, id string) bool {
	t.Helper()
	call := s.data.since()
	var project struct{ Name string }
	return s.readInto(t, m, "/api/projects/"+id, &project) && s.returned(m, call, nameOf(id), project.Name)
}

// readColumns reads the columns of a table at a machine, and reports whether the response is current.
func (s *dataCampaign) readColumns(t testing.TB, m *machine, table string) bool {
	t.Helper()
	call := s.data.since()
	var preferences struct{ Columns map[string][]string }
	if !s.readInto(t, m, "/api/auth/preferences", &preferences) {
		return false
	}
	column := ""
	if all := preferences.Columns[table]; len(all) > 0 {
		column = all[0]
	}
	return s.returned(m, call, columnsOf(table), column)
}

// readStream reads the target of a stream at a machine, and reports whether the response is current.
func (s *dataCampaign) readStream(t testing.TB, m *machine) bool {
	t.Helper()
	call := s.data.since()
	var all []struct{ StreamName, TargetTopic string }
	if !s.readInto(t, m, s.messages.path(t, m)+"/streams", &all) {
		return false
	}
	for _, one := range all {
		if one.StreamName == streamRegister {
			return s.returned(m, call, streamRegister, one.TargetTopic)
		}
	}
	t.Errorf("node %d has the streams %v, and not the %s", m.id, all, streamRegister)
	return false
}

// readInto reads as the administrator, and reports whether the response is current.
func (s *dataCampaign) readInto(t testing.TB, m *machine, path string, into any) bool {
	t.Helper()
	status, answer, stale, ok := s.data.read(t, m, s.session, path)
	if !ok || stale {
		return false
	}
	if status != http.StatusOK || json.Unmarshal(answer, into) != nil {
		t.Errorf("node %d: GET %s: %d %s", m.id, path, status, answer)
		return false
	}
	return true
}

// returned adds to the history that the value of a register was returned.
func (s *dataCampaign) returned(m *machine, call int64, register, value string) bool {
	s.data.add(m, call, dataOperation{register: register}, dataResult{returned: true, value: value})
	return true
}

// dataFaults returns the faults of TestCampaignPlatformData.
func (s *dataCampaign) dataFaults(t *testing.T) []fault {
	t.Helper()
	if os.Getenv("SIGNALBOX_TEST_FAULT_ROUNDS") == "" {
		return []fault{faults[0], faults[2], faults[3], faults[8], faults[12], firstLost}
	}
	return campaignFaults(t, s.random, append(slices.Clone(faults), firstLost))
}

// firstLost is the loss of the machine that created the cluster, with its data. Everything goes on through the
// others, the console included; then it joins as a new machine.
var firstLost = fault{name: "first machine lost", losesData: true, happen: func(t testing.TB, s *faultCampaign) time.Duration {
	m, others := s.machines[0], s.machines[1:]
	m.run.Kill()
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	took := s.recovery(t, others...)
	for _, other := range others {
		suite.WaitFor(t, fmt.Sprintf("the administrator signs in at the console of node %d", other.id), func() bool { return other.signsInAtConsole(t) })
	}
	s.awaitAcknowledged(t, 20)
	s.forget(m)
	m.start(t)
	s.join(t, m)
	s.awaitHealthy(t)
	s.writeThrough(t, m)
	return took
}}

// checkData ends the load and compares what all nodes have with what was acknowledged.
func (s *dataCampaign) checkData(t *testing.T) {
	t.Helper()
	s.network.Heal()
	s.awaitHealthy(t)
	s.messages.finish(t)
	s.messages.report(t)
	s.end()
	for _, m := range s.machines {
		for _, id := range s.named {
			suite.WaitFor(t, "a project is read", func() bool { return s.readName(t, m, id) })
		}
		for n := range namedTables {
			suite.WaitFor(t, "a table is read", func() bool { return s.readColumns(t, m, fmt.Sprint("table-", namedProjects+n)) })
		}
		suite.WaitFor(t, "a stream is read", func() bool { return s.readStream(t, m) })
		s.tokens.useAll(t, m)
	}
	s.data.check(t)
	s.tokens.check(t)
	s.checkSame(t)
	audit := s.readAudit(t)
	s.checkAudit(t, audit)
	s.projects.check(t, audit)
}

// TestCampaignPlatformData kills, stops, isolates and loses the nodes of a cluster that shares the data of the platform,
// while clients of all nodes read and change it. What the nodes return is linearizable, nothing acknowledged is lost,
// what was revoked stays revoked, and the audit log has each change once. All acknowledged messages are delivered.
func TestCampaignPlatformData(t *testing.T) {
	t.Parallel()
	modes := []string{"hp", "dynsec"}
	if os.Getenv("SIGNALBOX_TEST_FAULT_ROUNDS") != "" {
		modes = append(modes, "full")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := startDataCampaign(t, mode)
			s.runFaults(t, s.messages.duringFaults(s.dataFaults(t))...)
			s.checkData(t)
		})
	}
}
