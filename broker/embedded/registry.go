package embedded

import (
	"slices"
	"sync"
	"time"

	"signalbox/broker/dynsec"
)

// registry knows every open connection, who is behind it, and to which username
// a client id belongs.
type registry struct {
	mu       sync.Mutex // guards all below; never held while calling out
	links    map[*link]struct{}
	users    map[string]map[*link]struct{} // admitted ones, by username; "" for those without
	sessions map[string]*session           // by client id
	delayed  map[*session]struct{}         // those with a Will
	closed   bool
}

// session is a client id in use. The username that opened it keeps it until the
// session ends, so that nobody else inherits its subscriptions and messages.
type session struct {
	username string
	holder   *link     // the connection that has it or is about to; nil while the client is away
	away     *link     // the last connection, while the session waits for the client to come back
	will     *will     // to be published at willAt unless the client comes back before
	willAt   time.Time // [MQTT-3.1.3-9]
}

func newRegistry() *registry {
	return &registry{
		links:    map[*link]struct{}{},
		users:    map[string]map[*link]struct{}{},
		sessions: map[string]*session{},
		delayed:  map[*session]struct{}{},
	}
}

// open takes a connection in and starts f, unless the broker is closing.
func (r *registry) open(l *link, tasks *sync.WaitGroup, f func(*link)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.links[l] = struct{}{}
	tasks.Go(func() { f(l) })
	return true
}

// join makes a connection known under its username.
func (r *registry) join(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := l.hello.credentials.Username
	if r.users[name] == nil {
		r.users[name] = map[*link]struct{}{}
	}
	r.users[name][l] = struct{}{}
}

// claim gives a client id to a connection. It answers false if another username
// has it, and otherwise the connection that had it until now, which must be
// gone before the new one goes on.
func (r *registry) claim(l *link, clientID string) (previous *link, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := l.hello.credentials.Username
	s := r.sessions[clientID]
	if s == nil {
		s = &session{username: name}
		r.sessions[clientID] = s
	}
	if s.username != name {
		return nil, false
	}
	previous, s.holder = s.holder, l
	return previous, true
}

// establish notes that the connection's session takes the place of the one that
// waited. It gives that one's connection and its pending Will, if any.
func (r *registry) establish(l *link) (away *link, pending *will) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.established.Store(true)
	s := r.sessions[l.client.ID]
	away, s.away = s.away, nil
	return away, r.takeWill(s)
}

// leave forgets a connection that is at its end; its session is another matter.
func (r *registry) leave(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, l)
	name := l.hello.credentials.Username
	delete(r.users[name], l)
	if len(r.users[name]) == 0 {
		delete(r.users, name)
	}
}

// rest ends a connection's hold on its session. A session that is kept waits
// for the client with the Will that is to be published at the given time.
func (r *registry) rest(l *link, kept bool, pending *will, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[l.client.ID]
	if s == nil || s.holder != l && !kept {
		return
	}
	if kept {
		s.away = l
		r.keepWill(s, pending, at)
	}
	if s.holder == l {
		s.holder = nil
		if s.away == nil {
			delete(r.sessions, l.client.ID)
		}
	}
}

// expire ends a session whose client stayed away too long. It gives its Will,
// if that is still to be published.
func (r *registry) expire(l *link) (pending *will) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[l.client.ID]
	if s == nil || s.away != l {
		return nil
	}
	s.away = nil
	if s.holder == nil {
		delete(r.sessions, l.client.ID)
	}
	return r.takeWill(s)
}

func (r *registry) keepWill(s *session, w *will, at time.Time) {
	if w != nil {
		s.will, s.willAt = w, at
		r.delayed[s] = struct{}{}
	}
}

func (r *registry) takeWill(s *session) *will {
	w := s.will
	s.will = nil
	delete(r.delayed, s)
	return w
}

// due takes out the Wills whose delay is over.
func (r *registry) due(now time.Time) []*will {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []*will
	for s := range r.delayed {
		if !now.Before(s.willAt) {
			due = append(due, r.takeWill(s))
		}
	}
	return due
}

// cut marks the connections that have to be thrown out and starts f for each,
// once per connection and never after close.
func (r *registry) cut(cuts []dynsec.Cut, tasks *sync.WaitGroup, f func(*link)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for _, c := range cuts {
		for l := range r.users[nameOf(c)] {
			if l.cut.CompareAndSwap(false, true) {
				tasks.Go(func() { f(l) })
			}
		}
	}
}

func nameOf(c dynsec.Cut) string {
	if c.Anonymous {
		return ""
	}
	return c.Username
}

// addresses gives the addresses of a username's connections.
func (r *registry) addresses(username string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for l := range r.users[username] {
		if l.established.Load() {
			found = append(found, l.address())
		}
	}
	slices.Sort(found)
	return found
}

// close lets no more connections in and gives those that are open.
func (r *registry) close() []*link {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	open := make([]*link, 0, len(r.links))
	for l := range r.links {
		open = append(open, l)
	}
	return open
}
