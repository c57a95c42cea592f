package influxdb

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"strings"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

// server is the configuration of the server.
type server struct {
	Version         int                 `json:"version"`
	URL             string              `json:"url"`
	Database        string              `json:"database"`
	RetentionPolicy string              `json:"retentionPolicy"`
	Credentials     bridges.Credentials `json:"credentials"`
	Organization    string              `json:"organization"`
	Bucket          string              `json:"bucket"`
	Token           string              `json:"token"`
	TLS             bridges.TLS         `json:"tls"`
}

// check reports members that are missing for the version, or belong to the other version.
func (s *server) check(p *bridges.Problems) {
	first := map[string]string{"database": s.Database, "retentionPolicy": s.RetentionPolicy, "credentials": s.Credentials.Username + s.Credentials.Password}
	second := map[string]string{"organization": s.Organization, "bucket": s.Bucket, "token": s.Token}
	others, version := second, "2"
	if s.Version == 2 {
		others, version = first, "1"
	}
	for name, value := range others {
		if value != "" {
			p.Add("connection."+name, "is only for version "+version+" of InfluxDB")
		}
	}
	if s.Version != 2 && s.Database == "" {
		p.Add("connection.database", "must be given for version 1 of InfluxDB")
	}
	if s.Version == 2 && s.Bucket == "" {
		p.Add("connection.bucket", "must be given for version 2 of InfluxDB")
	}
	if s.Version == 2 && strings.ContainsAny(s.Token, "\r\n") {
		p.Add("connection.token", "must be one line")
	}
}

// write returns path and query of the URL for points.
func (s *server) write() (path string, query url.Values) {
	query = url.Values{"precision": {"ns"}}
	add := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.Version == 2 {
		add("org", s.Organization)
		add("bucket", s.Bucket)
		return "api/v2/write", query
	}
	add("db", s.Database)
	add("rp", s.RetentionPolicy)
	return "write", query
}

// client sends requests to one server.
type client struct {
	http        *nethttp.Client
	write       string // URL for points
	ping        string
	destination string // what points are written to, for error texts
	authorize   func(*nethttp.Request)
	gzip        bool
}

func newClient(dial bridges.Dial, s *server, gzipped bool, p *bridges.Problems) *client {
	s.check(p)
	base, secure := target.ParseURL(s.URL, s.TLS, p)
	path, query := s.write()
	write := base.JoinPath(path)
	write.RawQuery = query.Encode()
	c := &client{http: target.HTTPClient(dial, secure, 1), write: write.String(), ping: base.JoinPath("ping").String(), gzip: gzipped}
	c.authorize, c.destination = s.authorize(), fmt.Sprintf("the database %q", s.Database)
	if s.Version == 2 {
		c.destination = fmt.Sprintf("the bucket %q of the organization %q", s.Bucket, s.Organization)
	}
	return c
}

// authorize returns a function that adds the credentials to a request.
func (s *server) authorize() func(*nethttp.Request) {
	switch {
	case s.Version == 2:
		return func(r *nethttp.Request) { r.Header.Set("Authorization", "Token "+s.Token) }
	case s.Credentials.Username != "":
		return func(r *nethttp.Request) { r.SetBasicAuth(s.Credentials.Username, s.Credentials.Password) }
	}
	return func(*nethttp.Request) {}
}

// response is a server's response.
type response struct {
	status int
	text   string // the server's error text
}

// maxResponse is the maximum size of a response that is read, maxText of the error text in it.
const (
	maxResponse = 64 << 10
	maxText     = 300
)

// do sends a request and reads the response. The error is a text for operators.
func (c *client) do(ctx context.Context, method, address string, body []byte) (response, error) {
	req, err := nethttp.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return response{}, explain(err)
	}
	c.authorize(req)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
		if c.gzip {
			req.Header.Set("Content-Encoding", "gzip")
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, explain(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return response{}, explain(err)
	}
	return response{res.StatusCode, errorText(text)}, nil
}

// pack returns the body of a request.
func (c *client) pack(lines [][]byte) ([]byte, error) {
	var b bytes.Buffer
	if !c.gzip {
		b.Write(bytes.Join(lines, nil))
		return b.Bytes(), nil
	}
	z := gzip.NewWriter(&b)
	for _, line := range lines {
		if _, err := z.Write(line); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

// errorText returns the error text in a response: "error" in version 1, "message" in version 2.
func errorText(body []byte) string {
	var parsed struct{ Error, Message string }
	text := string(body)
	if json.Unmarshal(body, &parsed) == nil {
		text = cmp.Or(parsed.Error, parsed.Message)
	}
	return target.Excerpt(text, maxText)
}

// explain returns the error for a request without a response.
func explain(err error) error {
	if target.IsTimeout(err) {
		return target.Explain(err, "the server did not answer in time")
	}
	return target.Explain(err, "the server cannot be reached: "+target.Reason(err))
}
