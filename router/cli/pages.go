package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"signalbox/router/client"
)

// numberedPages prints all pages of a list whose pages have numbers. With -o json they
// are one list of the entries.
func (c *command) numberedPages(ctx context.Context, s *session, request client.Request, out *printer) error {
	request.Query.Set("pageSize", strconv.Itoa(pageSize))
	for number := 0; ; number++ {
		request.Query.Set("page", strconv.Itoa(number))
		entries, err := s.numberedPage(ctx, request)
		if err != nil {
			return err
		}
		for _, one := range entries {
			if err := out.joined(one); err != nil {
				return err
			}
		}
		if len(entries) < pageSize {
			return errors.Join(out.endJoined(), out.finish())
		}
	}
}

func (s *session) numberedPage(ctx context.Context, request client.Request) ([]json.RawMessage, error) {
	resp, err := s.Do(ctx, request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return nil, &client.ConnectionError{Sent: true, Err: err}
	}
	var page struct {
		Data []json.RawMessage `json:"data"`
	}
	return page.Data, json.Unmarshal(text, &page)
}

// joined prints an entry of several pages.
func (p *printer) joined(one json.RawMessage) error {
	if p.format != asJSON {
		return p.entry(one)
	}
	separator := ","
	if p.count == 0 {
		separator = "["
	}
	p.count++
	_, err := p.w.Write(bytes.Join([][]byte{[]byte(separator), one}, nil))
	return err
}

func (p *printer) endJoined() error {
	switch {
	case p.format != asJSON:
		return nil
	case p.count == 0:
		return p.line("[]")
	}
	return p.line("]")
}
