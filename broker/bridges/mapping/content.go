package mapping

// Content is what a message becomes as a whole: the text of a template, a record as
// JSON, or, where there is neither, its payload.
type Content struct {
	Template *Template
	Record   *Mapping
}

// Of makes the content of a message, which shares memory with it where it is its
// payload. The error says why the message does not fit.
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
