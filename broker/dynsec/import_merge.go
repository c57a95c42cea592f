package dynsec

import "iter"

// merge adds the records of a document. Only clients that are in both can contradict each other, so only
// these are merged as documents. The others, of which there may be many, are added without that.
func (t *Tx) merge(c *Content, stored func(username string) string) error {
	before := fork(t.s.clients)
	isNew := func(username string) bool {
		_, there := before.Get(username)
		return !there
	}
	isOld := func(username string) bool { return !isNew(username) }
	isCommon := func(username string) bool {
		_, imported := c.state.clients.Get(username)
		return imported
	}
	if hasEverybody(&t.s) || hasEverybody(c.state) { // which all clients of the other one join
		isNew, isOld, isCommon = func(string) bool { return false }, anyClient, anyClient
	}
	merged, err := t.s.documentOf(isCommon, keptPassword(&t.s, stored)).merge(c.documentOf(isOld))
	if err != nil {
		return err
	}
	t.shared = newSharing()
	t.importRecords(merged)
	return t.addClients(c, isNew)
}

func hasEverybody(s *State) bool {
	_, ok := s.groups.Get(everybodyName)
	return ok
}

// addClients adds the clients of a document that are new. Their roles and groups are there.
func (t *Tx) addClients(c *Content, isNew func(username string) bool) error {
	for name := range each(c.state.roles, "") {
		t.role(name) // so that it can be modified
	}
	for name := range each(c.state.groups, "") {
		t.group(name)
	}
	var added iter.Seq[PutClient] = func(yield func(PutClient) bool) {
		for put := range c.clients() {
			if isNew(put.Username) && !yield(put) {
				return
			}
		}
	}
	n := t.s.clients.Len()
	err := t.s.loadClients(t.shared, func(yield func(ClientRecord) bool) {
		for put := range added {
			if !yield(put.ClientRecord) {
				return
			}
		}
	})
	if err == nil && t.s.clients.Len() > n {
		t.s.joinAll(func(yield func(string, *ClientRecord) bool) {
			for put := range added {
				if !yield(put.Username, &put.ClientRecord) {
					return
				}
			}
		})
		t.record(PutClients{Each: added})
		t.s.clients = packed(t.s.clients)
	}
	return err
}
