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
	rev    int64 // of the document in the registry, 0 for none
	unread bool  // it could not be read there

	mu       sync.RWMutex // guards the fields below
	document *document    // nil for none
	links    []*link      // in the order of the connections
}

// allLinks returns the links.
func (b *bridge) allLinks() []*link {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.links
}

// link returns the link of a connection, nil for none.
func (b *bridge) link(name string) *link {
	for _, l := range b.allLinks() {
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

func (b *bridge) setCurrent(d *document, links []*link) {
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
		l.configure(c, connector, unusableReason(append(found, problems...), c), false)
		links = append(links, l)
	}
	b.setCurrent(d, links)
}

// unusableReason returns why a stored connection cannot be used, "" if it can.
func unusableReason(problems Problems, c *connection) string {
	for _, p := range problems {
		if c.invalid && (isBelow(p.Path, c.path) || isBelow(p.Path, "schemaMappings") || p.Path == "") {
			return "the stored configuration cannot be used, put it right: " + p.Path + " " + p.Msg
		}
	}
	return ""
}

// connector creates the connector of a connection, nil if that is disabled. The connection is
// invalid if there are problems.
func (b *bridge) connector(c *connection, m *Meter) (Connector, Problems) {
	if c.invalid {
		return nil, nil
	}
	connector, found := b.kind.compile(b.log, c, &Connection{Local: b.engine.local, Identity: b.engine.identity, Owner: b.engine.owner, Dial: b.engine.host.Dial, Now: b.engine.host.Now, Meter: m})
	if len(found) > 0 || !c.enabled {
		b.discard(connector)
		connector = nil
	}
	c.invalid = len(found) > 0
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
	d, problems := b.kind.schema().read(text, storedText(old))
	if d == nil {
		return invalidError(op, problems)
	}
	s := b.planChanges(d, &problems)
	if len(problems) > 0 {
		s.closeUnused(b)
		return invalidError(op, sorted(problems))
	}
	if b.rev == 0 && old != nil && string(old.text) == string(d.text) {
		s.closeUnused(b)
		return nil
	}
	rev := int64(0)
	err := b.commit(ctx, op, d, s, nil, func(store func() error) (err error) {
		rev, err = b.engine.host.Registry.Put(ctx, b.engine.brokerID, b.kind.ID(), d.text, b.rev, store)
		return err
	})
	if err == nil {
		b.rev, b.unread = rev, false
	}
	return err
}

func storedText(d *document) json.RawMessage {
	if d == nil {
		return nil
	}
	return d.text
}

// changes are the changes for each connection of a document.
type changes []*connectionChange

type connectionChange struct {
	*connection
	link      *link // nil for a new connection
	meter     *Meter
	unchanged bool // nothing changes
	connector Connector
}

// planChanges compares a document with the one in force, and creates the connectors.
func (b *bridge) planChanges(d *document, problems *Problems) changes {
	all := make(changes, 0, len(d.connections))
	for _, c := range d.connections {
		s := &connectionChange{connection: c, link: b.link(c.name), meter: &Meter{}}
		s.unchanged = s.link != nil && !c.invalid && s.link.currentOrigin() == c.origin
		if s.link != nil {
			s.meter = s.link.meter
		}
		if !s.unchanged {
			var found Problems
			s.connector, found = b.connector(c, s.meter)
			*problems = append(*problems, found...)
		}
		all = append(all, s)
	}
	return all
}

// closeUnused closes connectors that are not used.
func (s changes) closeUnused(b *bridge) {
	for _, c := range s {
		b.discard(c.connector)
	}
}

// commit has put store the document, which calls store, and then puts the document in force. Deleted connections end before,
// so that their queues are not in use when they are deleted.
func (b *bridge) commit(ctx context.Context, op string, d *document, s changes, problems Problems, put func(store func() error) error) error {
	deleted := slices.DeleteFunc(slices.Clone(b.allLinks()), func(l *link) bool {
		return slices.ContainsFunc(s, func(s *connectionChange) bool { return s.link == l })
	})
	lost := closeAll(deleted)
	if err := put(func() error { return b.store(ctx, d) }); err != nil {
		s.closeUnused(b)
		b.restart(ctx, deleted)
		return b.engine.StoreFailed(op, err)
	}
	for i, l := range deleted {
		l.log.Info("a connection of a bridge is deleted", "messages", lost[i].Messages, "dead_letters", lost[i].DeadLetters)
	}
	links := make([]*link, 0, len(s))
	for _, s := range s {
		links = append(links, b.apply(ctx, s, unusableReason(problems, s.connection)))
	}
	b.setCurrent(d, links)
	return nil
}

// store stores a document here, with the queues of its connections.
func (b *bridge) store(ctx context.Context, d *document) error {
	return b.engine.host.store.PutConfig(ctx, b.engine.brokerID, b.kind.ID(), d.text, d.names())
}

// apply puts one connection in force. It cannot be used if problem is not empty, which is the reason.
func (b *bridge) apply(ctx context.Context, s *connectionChange, problem string) *link {
	switch {
	case s.link == nil:
		s.link = newLink(b.engine, b.kind.ID(), s.name, s.meter)
		s.link.start(ctx, s.connection)
		s.link.configure(s.connection, s.connector, problem, true)
	case !s.unchanged:
		s.link.configure(s.connection, s.connector, problem, true)
	}
	return s.link
}

// restart restarts links whose deletion could not be stored.
func (b *bridge) restart(ctx context.Context, deleted []*link) {
	old := b.current()
	links := slices.Clone(b.allLinks())
	for _, l := range deleted {
		i := slices.IndexFunc(old.connections, func(c *connection) bool { return c.name == l.name })
		c := old.connections[i]
		again := newLink(b.engine, b.kind.ID(), c.name, l.meter)
		connector, found := b.connector(c, again.meter)
		again.start(ctx, c)
		again.configure(c, connector, unusableReason(found, c), false)
		links[slices.Index(links, l)] = again
	}
	b.setCurrent(old, links)
}

// close closes all links.
func (b *bridge) close() { closeAll(b.allLinks()) }

// closeAll closes links concurrently, and returns the usage of their queues.
func closeAll(links []*link) []Usage {
	for _, l := range links {
		l.unsubscribe()
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
