package bridges

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
)

// bridge is the state of one kind at a broker. It is changed only within Lifecycle.Change, or
// during loading.
type bridge struct {
	engine *Engine
	kind   *kind
	log    *slog.Logger

	mu       sync.RWMutex // guards the fields below
	document *document    // nil for none
	links    []*link      // in the order of the connections
}

// all returns the links.
func (b *bridge) all() []*link {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.links
}

// link returns the link of a connection, nil for none.
func (b *bridge) link(name string) *link {
	for _, l := range b.all() {
		if l.name == name {
			return l
		}
	}
	return nil
}

// current returns the document, nil for none.
func (b *bridge) current() *document {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.document
}

func (b *bridge) put(d *document, links []*link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.document, b.links = d, links
}

// load starts a stored document. Its problems, if this version requires more than the one that
// stored it, are shown as problems of the connections.
func (b *bridge) load(ctx context.Context, text json.RawMessage) {
	d, problems := b.kind.schema().read(text, nil)
	if d == nil {
		b.log.Error("the stored configuration of a bridge cannot be read", "problem", problems[0].Msg)
		return
	}
	var links []*link
	for _, c := range d.connections {
		if slices.ContainsFunc(links, func(l *link) bool { return l.name == c.name }) {
			continue
		}
		l := newLink(b.engine, b.kind.ID(), c.name, &Meter{})
		connector, found := b.connector(c, l.meter)
		l.start(ctx, c)
		l.modify(c, connector, unusable(append(found, problems...), c), false)
		links = append(links, l)
	}
	b.put(d, links)
}

// unusable returns why a stored connection cannot be used, "" if it can.
func unusable(problems Problems, c *connection) string {
	for _, p := range problems {
		if c.bad && (under(p.Path, c.path) || under(p.Path, "schemaMappings") || p.Path == "") {
			return "the stored configuration cannot be used, put it right: " + p.Path + " " + p.Msg
		}
	}
	return ""
}

// connector creates the connector of a connection, nil if that is disabled. The connection is bad
// if there are problems.
func (b *bridge) connector(c *connection, m *Meter) (Connector, Problems) {
	if c.bad {
		return nil, nil
	}
	connector, found := b.kind.compile(b.log, c, &Connection{Local: b.engine.local, Identity: b.engine.identity, Owner: b.engine.owner, Dial: b.engine.host.Dial, Now: b.engine.host.Now, Meter: m})
	if len(found) > 0 || !c.enabled {
		b.discard(connector)
		connector = nil
	}
	c.bad = len(found) > 0
	return connector, found
}

func (b *bridge) discard(c Connector) {
	if c != nil {
		discard(b.log, c)
	}
}

// set stores a document and puts it in force.
func (b *bridge) set(ctx context.Context, op string, text json.RawMessage) error {
	old := b.current()
	d, problems := b.kind.schema().read(text, stored(old))
	if d == nil {
		return refuse(op, problems)
	}
	s := b.steps(d, &problems)
	if len(problems) > 0 {
		s.giveUp(b)
		return refuse(op, sorted(problems))
	}
	if old != nil && string(old.text) == string(d.text) {
		s.giveUp(b)
		return nil
	}
	return b.commit(ctx, op, d, s)
}

func stored(d *document) json.RawMessage {
	if d == nil {
		return nil
	}
	return d.text
}

// steps are the changes for each connection of a document.
type steps []*step

type step struct {
	*connection
	link      *link // nil for a new connection
	meter     *Meter
	same      bool // nothing changes
	connector Connector
}

// steps compares a document with the one in force, and creates the connectors.
func (b *bridge) steps(d *document, problems *Problems) steps {
	all := make(steps, 0, len(d.connections))
	for _, c := range d.connections {
		s := &step{connection: c, link: b.link(c.name), meter: &Meter{}}
		s.same = s.link != nil && !c.bad && s.link.from() == c.origin
		if s.link != nil {
			s.meter = s.link.meter
		}
		if !s.same {
			var found Problems
			s.connector, found = b.connector(c, s.meter)
			*problems = append(*problems, found...)
		}
		all = append(all, s)
	}
	return all
}

// giveUp closes connectors that are not used.
func (s steps) giveUp(b *bridge) {
	for _, c := range s {
		b.discard(c.connector)
	}
}

// commit stores a document and puts it in force. Deleted connections end before, so that their
// queues are not in use when they are deleted.
func (b *bridge) commit(ctx context.Context, op string, d *document, s steps) error {
	gone := slices.DeleteFunc(slices.Clone(b.all()), func(l *link) bool {
		return slices.ContainsFunc(s, func(s *step) bool { return s.link == l })
	})
	lost := closeAll(gone)
	if err := b.engine.host.store.PutConfig(ctx, b.engine.brokerID, b.kind.ID(), d.text, d.names()); err != nil {
		s.giveUp(b)
		b.revive(ctx, gone)
		return b.engine.StoreFailed(op, err)
	}
	for i, l := range gone {
		l.log.Info("a connection of a bridge is deleted", "messages", lost[i].Messages, "dead letters", lost[i].DeadLetters)
	}
	links := make([]*link, 0, len(s))
	for _, s := range s {
		links = append(links, b.begin(ctx, s))
	}
	b.put(d, links)
	return nil
}

// begin puts one connection in force.
func (b *bridge) begin(ctx context.Context, s *step) *link {
	switch {
	case s.link == nil:
		s.link = newLink(b.engine, b.kind.ID(), s.name, s.meter)
		s.link.start(ctx, s.connection)
		s.link.modify(s.connection, s.connector, "", true)
	case !s.same:
		s.link.modify(s.connection, s.connector, "", true)
	}
	return s.link
}

// revive restarts links whose deletion could not be stored.
func (b *bridge) revive(ctx context.Context, gone []*link) {
	old := b.current()
	links := slices.Clone(b.all())
	for _, l := range gone {
		i := slices.IndexFunc(old.connections, func(c *connection) bool { return c.name == l.name })
		c := old.connections[i]
		again := newLink(b.engine, b.kind.ID(), c.name, l.meter)
		connector, found := b.connector(c, again.meter)
		again.start(ctx, c)
		again.modify(c, connector, unusable(found, c), false)
		links[slices.Index(links, l)] = again
	}
	b.put(old, links)
}

// close closes all links.
func (b *bridge) close() { closeAll(b.all()) }

// closeAll closes links concurrently, and returns the usage of their queues.
func closeAll(links []*link) []Usage {
	for _, l := range links {
		l.detach()
	}
	usage := make([]Usage, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		if q := l.queue.Load(); q != nil {
			usage[i] = q.Usage()
		}
		closing.Go(l.close)
	}
	closing.Wait()
	return usage
}
