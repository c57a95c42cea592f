package engine

// touch notes that the connection is to be flushed by the caller, and tells
// whether no other goroutine was going to.
func (c *Conn) touch() bool { return c != nil && c.pending.CompareAndSwap(false, true) }

// flushDeferred has a connection flushed by the goroutine that does so for the store.
func (e *Engine) flushDeferred(c *Conn) {
	if !c.touch() {
		return
	}
	e.flushing.Lock()
	e.toFlush = append(e.toFlush, c)
	e.flushing.Unlock()
	select {
	case e.flushNow <- struct{}{}:
	default:
	}
}

// runFlusher flushes connections for the store, which must not wait. While it
// does, more gathers; so many messages go out at once.
func (e *Engine) runFlusher() {
	var batch []*Conn
	for {
		select {
		case <-e.flushNow:
		case <-e.stopped:
			return
		}
		e.flushing.Lock()
		batch, e.toFlush = e.toFlush, batch[:0]
		e.flushing.Unlock()
		for i, c := range batch {
			batch[i] = nil
			c.flush()
		}
	}
}
