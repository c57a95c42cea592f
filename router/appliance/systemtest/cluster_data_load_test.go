package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"signalbox/scripts/suite"
)

// projectLoad creates projects, and deletes every third of them.
type projectLoad struct {
	*dataCampaign

	mu       sync.Mutex                 // guards requests
	requests map[string]projectRequests // by the name of the project
}

// projectRequests are the ids of the requests that created and deleted a project, "" for none.
type projectRequests struct{ created, deleted string }

// create creates a project through a machine, and reports whether that was acknowledged.
func (p *projectLoad) create(t testing.TB, m *machine, name string) bool {
	t.Helper()
	p.expected.pending(name)
	v, id, answer := p.data.change(t, m, "POST", "/api/projects", object{"name": name})
	p.mu.Lock()
	p.requests[name] = projectRequests{created: id}
	deletes := len(p.requests)%3 == 0
	p.mu.Unlock()
	var made struct{ ID string }
	switch v {
	case unchanged:
		p.expected.set(name, deleted)
		return false
	case unconfirmed:
		return false
	case refusedChange:
		t.Errorf("node %d refused to create a project: %s", m.id, answer)
		return false
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		t.Errorf("node %d: create a project: %s: %v", m.id, answer, err)
		return false
	}
	p.expected.acknowledge(name, created)
	if deletes {
		p.remove(t, m, name, id, made.ID)
	}
	return true
}

// remove deletes a project through a machine.
func (p *projectLoad) remove(t testing.TB, m *machine, name, createdBy, id string) {
	t.Helper()
	p.expected.pending(name)
	v, deletedBy, answer := p.data.change(t, m, "DELETE", "/api/projects/"+id, nil)
	p.mu.Lock()
	p.requests[name] = projectRequests{createdBy, deletedBy}
	p.mu.Unlock()
	switch v {
	case acknowledged:
		p.expected.acknowledge(name, deleted)
	case unchanged:
		p.expected.set(name, created)
	case refusedChange:
		t.Errorf("node %d refused to delete a project that it had created: %s", m.id, answer)
	}
}

// check compares the projects at all machines with what was acknowledged, and with the audit log.
func (p *projectLoad) check(t testing.TB, audit map[string][]auditRow) {
	t.Helper()
	for _, m := range p.machines {
		present := map[string]bool{}
		for _, name := range m.projects(t) {
			if _, ours := p.requests[name]; ours {
				present[name] = true
			}
		}
		if lost, stray := p.expected.differences(present); len(lost)+len(stray) > 0 {
			t.Errorf("node %d: lost the projects %v, stray are %v", m.id, clip(lost), clip(stray))
		}
		for name, r := range p.requests {
			if exists := done(audit[r.created]) && !done(audit[r.deleted]); exists != present[name] {
				t.Errorf("node %d: project %s exists: %t; of its requests the audit log has %+v and %+v", m.id, name, present[name], audit[r.created], audit[r.deleted])
			}
		}
	}
	t.Logf("%d creations and deletions of projects were acknowledged, of %d projects", p.expected.acknowledgedBeyond(), len(p.requests))
}

// platformToken is a token of the default project.
type platformToken struct{ ID, Token string }

func (k platformToken) register() string { return "token " + k.ID }

// tokenPhase is what a node has responded to the holder of a token.
type tokenPhase int

const (
	unseen    tokenPhase = iota
	accepted             // once
	thenEnded            // refused after that: it must not accept the token again, however old its data is
)

// Bounds of the number of tokens that are not revoked.
const (
	minTokens = 4
	maxTokens = 12
)

// tokenLoad creates, uses and revokes tokens. Each is a register.
type tokenLoad struct {
	*dataCampaign

	mu      sync.Mutex // guards the fields below
	live    []platformToken
	revoked []platformToken
	phases  map[int]map[string]tokenPhase // by the number of the machine and the id of the token
	used    int                           // current responses that accepted a token
	keptOut int                           // current responses that refused a token whose revocation was acknowledged before
	atOnce  int                           // of both, those at another node right after the acknowledgement
	created int
}

// operate creates, revokes or uses a token through a machine.
func (l *tokenLoad) operate(t testing.TB, m *machine) {
	t.Helper()
	l.mu.Lock()
	n, live := l.random.IntN(10), len(l.live)
	l.mu.Unlock()
	switch {
	case live < minTokens || n == 0 && live < maxTokens:
		l.create(t, m)
	case n == 1:
		l.revoke(t, m)
	default:
		if k, ok := l.pick(); ok {
			l.use(t, m, k)
		}
	}
}

// pick returns a token: often one of those that were created or revoked last.
func (l *tokenLoad) pick() (k platformToken, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.live
	if l.random.IntN(2) == 0 {
		from = l.revoked
		if l.random.IntN(4) > 0 {
			from = from[max(0, len(from)-3):]
		}
	}
	if len(from) == 0 {
		return k, false
	}
	return from[l.random.IntN(len(from))], true
}

// create creates a token through a machine, and uses it at the others at once.
func (l *tokenLoad) create(t testing.TB, m *machine) {
	t.Helper()
	call := l.data.since()
	v, _, answer := l.data.change(t, m, "POST", m.api.inProject("/tokens"), object{"name": "t", "role": "viewer", "type": "unrestricted", "brokers": []string{}})
	var k platformToken
	switch {
	case v == refusedChange:
		t.Errorf("node %d refused to create a token: %s", m.id, answer)
		return
	case v != acknowledged:
		return // its value is not known to any client
	}
	if err := json.Unmarshal(answer, &k); err != nil || k.ID == "" || k.Token == "" {
		t.Errorf("node %d: create a token: %s: %v", m.id, answer, err)
		return
	}
	l.data.add(m, call, dataOperation{register: k.register(), sets: true, value: tokenValid}, dataResult{})
	l.useElsewhere(t, m, k)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created++
	l.live = append(l.live, k)
}

// revoke revokes a token through a machine, and tries to use it at the others at once. A token whose revocation was not
// confirmed is revoked again, at any node.
func (l *tokenLoad) revoke(t testing.TB, m *machine) {
	t.Helper()
	l.mu.Lock()
	if len(l.live) == 0 {
		l.mu.Unlock()
		return
	}
	k := l.live[l.random.IntN(len(l.live))]
	l.mu.Unlock()
	call, revokes := l.data.since(), dataOperation{register: k.register(), sets: true}
	v, _, answer := l.data.change(t, m, "DELETE", m.api.inProject("/tokens/"+k.ID), nil)
	var refusal struct{ Code string }
	switch v {
	case acknowledged:
		l.data.add(m, call, revokes, dataResult{returned: true, value: tokenValid})
	case refusedChange: // another attempt has revoked it
		l.data.add(m, call, revokes, dataResult{returned: true})
		if json.Unmarshal(answer, &refusal) != nil || refusal.Code != "NOT_FOUND" {
			t.Errorf("node %d refused to revoke a token: %s", m.id, answer)
		}
	case unconfirmed:
		l.data.add(m, call, revokes, dataResult{unknown: true})
		return
	case unchanged:
		return
	}
	l.mu.Lock()
	if i := slices.Index(l.live, k); i >= 0 {
		l.live = slices.Delete(l.live, i, i+1)
		l.revoked = append(l.revoked, k)
	}
	l.mu.Unlock()
	l.useElsewhere(t, m, k)
}

// useElsewhere uses a token at all other machines.
func (l *tokenLoad) useElsewhere(t testing.TB, m *machine, k platformToken) {
	t.Helper()
	for _, other := range l.runningMachines() {
		if other.id != m.id && l.use(t, other, k) {
			l.mu.Lock()
			l.atOnce++
			l.mu.Unlock()
		}
	}
}

// use uses a token at a machine, and reports whether the response is current. Whether it is right follows from the
// history; but a node that accepted the token and refused it then must never accept it again.
func (l *tokenLoad) use(t testing.TB, m *machine, k platformToken) bool {
	t.Helper()
	l.mu.Lock()
	before, isRevoked := l.phases[m.id][k.ID], slices.Contains(l.revoked, k)
	l.mu.Unlock()
	call := l.data.since()
	status, _, stale, ok := l.data.read(t, m, k.Token, "/api/projects/"+m.api.project)
	if !ok {
		return false
	}
	value := ""
	if status == http.StatusOK {
		value = tokenValid
	}
	if !stale {
		l.returned(m, call, k.register(), value)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phases[m.id] == nil {
		l.phases[m.id] = map[string]tokenPhase{}
	}
	switch {
	case value == tokenValid && before == thenEnded:
		t.Errorf("node %d accepts the %s again, which it had refused", m.id, k.register())
	case value == tokenValid:
		l.phases[m.id][k.ID] = max(l.phases[m.id][k.ID], accepted)
	case before == accepted:
		l.phases[m.id][k.ID] = thenEnded
	}
	switch {
	case stale:
	case value == tokenValid:
		l.used++
	case isRevoked:
		l.keptOut++
	}
	return !stale
}

// forget deletes what is known of a machine that loses its data.
func (l *tokenLoad) forget(m *machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.phases, m.id)
}

// useAll uses all tokens at a machine.
func (l *tokenLoad) useAll(t testing.TB, m *machine) {
	t.Helper()
	for _, k := range slices.Concat(l.live, l.revoked) {
		suite.WaitFor(t, fmt.Sprintf("node %d responds to the holder of the %s", m.id, k.register()), func() bool { return l.use(t, m, k) })
	}
}

// check checks that what the history states of tokens is enough.
func (l *tokenLoad) check(t testing.TB) {
	t.Helper()
	if len(l.revoked) == 0 || l.used == 0 || l.keptOut == 0 || l.atOnce == 0 {
		t.Errorf("%d tokens were revoked, %d used, %d refused after they were revoked, %d of these at another node at once", len(l.revoked), l.used, l.keptOut, l.atOnce)
	}
	t.Logf("%d tokens were created, %d revoked; %d current responses accepted one, %d refused one that was revoked; %d of these at another node right after the acknowledgement",
		l.created, len(l.revoked), l.used, l.keptOut, l.atOnce)
}
