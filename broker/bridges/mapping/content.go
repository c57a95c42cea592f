package mapping

// Content defines what is made from a whole message: the text of a template, a record as JSON,
// or, without either, the payload.
type Content struct {
	Template *Template
	Record   *Mapping
}

// Of returns the content of a message. If that is the payload, it shares the message's memory.
// The error explains why the message does not fit.
func (c Content) Of(m *Message) ([]byte, error) {
	switch {
	case c.Template != nil:
		return c.Template.Append(nil, m)
	case c.Record != nil:
		r, err := c.Record.Record(m)
		if err != nil {
			return nil, err
		}
		return r.AppendJSON(nil), nil
	}
	return m.Payload, nil
}
