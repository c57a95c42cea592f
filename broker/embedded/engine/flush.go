package engine

// touch reports whether the caller must flush the connection: no other goroutine is going
// to. A goroutine must not wait while it has touched a connection and not flushed it.
func (c *Conn) touch() bool { return c != nil && c.pending.CompareAndSwap(false, true) }

// flushDeferred makes the flusher flush a connection, for callers that must not write.
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

// runFlusher flushes connections for the goroutine of the store, which must not wait. More
// messages gather while it writes, so that many are sent at once.
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
