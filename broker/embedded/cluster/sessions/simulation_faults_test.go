package sessions_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// lossy loses requests and responses.
type lossy struct {
	seed uint64

	mu            sync.Mutex
	rules         []*lossRule
	confirmations bool // some were lost, and so perhaps that a session has ended
}

// lossRule loses some of the requests of a kind, or of all if that is 0.
type lossRule struct {
	kind          byte
	before, after float64 // the probabilities that a request or its response is lost
}

// fault returns the fault of a request. It depends on the seed, the request and the virtual time, but
// not on the order of requests.
func (y *lossy) fault(l link, request []byte) (f fault) {
	random := rand.New(rand.NewPCG(y.seed, uint64(time.Now().UnixMicro())<<16^uint64(l.from<<12^l.to<<8)^uint64(request[1])))
	f.delay = time.Duration(random.IntN(3000)) * time.Microsecond
	if random.IntN(50) == 0 {
		f.delay *= 200
	}
	f.hangs = random.IntN(4) == 0
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, r := range y.rules {
		if r.kind == 0 || r.kind == request[1] {
			f.before, f.after = f.before || random.Float64() < r.before, f.after || random.Float64() < r.after
		}
	}
	return f
}

func (y *lossy) add(r *lossRule) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.rules = append(y.rules, r)
	y.confirmations = y.confirmations || r.kind == 0 || r.kind == kindConfirm
}

func (y *lossy) remove(r *lossRule) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.rules = slices.DeleteFunc(y.rules, func(other *lossRule) bool { return other == r })
}

// latency returns the latency of a mesh connection.
func (s *simulation) latency(l link) time.Duration {
	return time.Duration(s.random(uint64(1000+l.from*10+l.to)).IntN(20_000)) * time.Microsecond
}

// disturb has one fault after the other happen.
func (s *simulation) disturb(random *rand.Rand) {
	for s.acting(upTo(random, 6*time.Second)) {
		lasts := upTo(random, []time.Duration{time.Second, 5 * time.Second, 25 * time.Second}[random.IntN(3)])
		number := 1 + random.IntN(len(s.nodes))
		var others []int
		for i := range s.nodes {
			if i+1 != number && (len(others) == 0 || random.IntN(2) == 0) {
				others = append(others, i+1)
			}
		}
		direction := random.IntN(3) // to, from, both
		switch random.IntN(8) {
		case 0, 1:
			rule := &lossRule{kind: byte(random.IntN(kindStop + 1)), before: random.Float64(), after: random.Float64()}
			if random.IntN(3) == 0 {
				rule.before = 1
			}
			s.log("requests are lost for %v: %+v", lasts, *rule)
			done := s.noteFault(1, 2, 3, 4, 5)
			s.lossy.add(rule)
			<-time.After(lasts)
			s.lossy.remove(rule)
			done()
		case 2, 3, 4, 5:
			s.log("node %d cannot reach %v for %v, direction %d", number, others, lasts, direction)
			done := s.noteFault(append(others, number)...)
			for change := 1; change >= -1; change -= 2 {
				for _, other := range others {
					if direction != 0 {
						s.block(link{number, other}, change)
					}
					if direction != 1 {
						s.block(link{other, number}, change)
					}
					s.notePathBroken(number, other)
				}
				if change > 0 {
					<-time.After(lasts)
				}
			}
			done()
		default:
			s.restart(number, lasts, random.IntN(3))
		}
	}
}

// Ways in which a node stops.
const (
	killed = iota
	stopped
	drained
)

// restart stops a node, and starts it again after some time with the files that it left.
func (s *simulation) restart(number int, lasts time.Duration, how int) {
	if !s.beginStop(number) {
		return
	}
	s.log("node %d stops for %v, way %d", number, lasts, how)
	done := s.noteFault(number)
	n := s.at(number)
	switch how {
	case killed:
		n.Store.(*disk).kill()
	case drained:
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		n.sessions.Drain(ctx)
		n.Redirect(ctx)
		n.sessions.Drain(ctx)
		n.sessions.Stop(ctx)
		cancel()
	}
	s.noteStopped(n)
	n.setDown(true)
	peers, _ := n.Peers()
	for _, other := range peers {
		s.block(link{number, other}, 1)
		s.notePathBroken(number, other)
	}
	n.Close(n.sessions.Close, n.mesh.Close, n.closeBacklog)
	s.noteStopped(n)
	<-time.After(lasts)
	for _, other := range peers {
		s.block(link{number, other}, -1)
	}
	n = s.start(number, n.dir)
	n.mesh.SetPeers(peers)
	s.noteStarted(n)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	n.mesh.WaitForRoutes(ctx)
	cancel()
	n.sessions.Open()
	s.endStop(number)
	s.log("node %d serves clients again", number)
	done()
}

// beginStop has a node admit no more clients. It reports whether it did until now.
func (s *simulation) beginStop(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping[number] {
		return false
	}
	s.stopping[number] = true
	return true
}

func (s *simulation) endStop(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stopping, number)
}

// noteStopped records which sessions a node has when it is about to stop.
func (s *simulation) noteStopped(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moving := slices.ContainsFunc(s.nodes, func(n *node) bool { return n.sessions.Figures().HandoffsInProgress > 0 })
	s.stops = append(s.stops, time.Now())
	sessions := map[string]int64{}
	for _, c := range s.clients {
		if moving || c.connecting != 0 || len(s.holders(c)) > 1 {
			c.unsure = time.Now()
		}
		if o, err := n.Ownership(c.id); err == nil {
			sessions[c.id] = o.CreatedAt
		}
	}
	s.asleep[n.number] = sessions
}

// noteStarted records that a node has its sessions again.
func (s *simulation) noteStarted(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(n)
	delete(s.asleep, n.number)
	for _, other := range s.nodes {
		delete(s.paths, link{n.number, other.number})
		delete(s.paths, link{other.number, n.number})
	}
}

// disk is a store whose process can be killed: nothing is stored from then on.
type disk struct {
	engine.Store
	mu   sync.Mutex
	dead bool
}

func (d *disk) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// Submit refuses all changes of a killed process.
func (d *disk) Submit(c *engine.Changes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.dead:
		d.Store.Submit(c)
	case c.Done != nil:
		d.Store.Submit(&engine.Changes{Done: lostChanges{c}})
	}
}

// Err returns an error after the kill.
func (d *disk) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return engine.ErrUncertain
	}
	return d.Store.Err()
}

// lostChanges reports that changes were not made.
type lostChanges struct{ changes *engine.Changes }

func (l lostChanges) Committed(*engine.Changes, error) {
	l.changes.Done.Committed(l.changes, engine.ErrUncertain)
}
