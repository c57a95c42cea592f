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
	"signalbox/broker/bridges/reach"
)

// server is where points are written to.
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

// check finds what is missing for the version, or belongs to the other.
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

// write gives the URL for points, without its place on the server.
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
	http      *nethttp.Client
	write     string // URLs
	ping      string
	place     string // what points are written to, for sentences
	authorize func(*nethttp.Request)
	gzip      bool
}

func newClient(dial bridges.Dial, s *server, gzipped bool, p *bridges.Problems) *client {
	s.check(p)
	base, secure := reach.Server(s.URL, s.TLS, p)
	path, query := s.write()
	write := base.JoinPath(path)
	write.RawQuery = query.Encode()
	c := &client{http: reach.Client(dial, secure, 1), write: write.String(), ping: base.JoinPath("ping").String(), gzip: gzipped}
	c.authorize, c.place = s.authorize(), fmt.Sprintf("the database %q", s.Database)
	if s.Version == 2 {
		c.place = fmt.Sprintf("the bucket %q of the organization %q", s.Bucket, s.Organization)
	}
	return c
}

// authorize gives what says in a request who sends it.
func (s *server) authorize() func(*nethttp.Request) {
	switch {
	case s.Version == 2:
		return func(r *nethttp.Request) { r.Header.Set("Authorization", "Token "+s.Token) }
	case s.Credentials.Username != "":
		return func(r *nethttp.Request) { r.SetBasicAuth(s.Credentials.Username, s.Credentials.Password) }
	}
	return func(*nethttp.Request) {}
}

// answer is what a server says to a request.
type answer struct {
	status int
	text   string // its own sentence
}

// maxAnswer is how much of an answer is read, maxText how much of it is shown.
const (
	maxAnswer = 64 << 10
	maxText   = 300
)

// do sends a request and reads the answer. The error is a sentence.
func (c *client) do(ctx context.Context, method, target string, body []byte) (answer, error) {
	req, err := nethttp.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return answer{}, explain(err)
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
		return answer{}, explain(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer{}, explain(err)
	}
	return answer{res.StatusCode, sentenceOf(text)}, nil
}

// pack makes the body of a request.
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

// sentenceOf finds what an answer says: version 1 has "error", version 2 "message".
func sentenceOf(body []byte) string {
	var parsed struct{ Error, Message string }
	text := string(body)
	if json.Unmarshal(body, &parsed) == nil {
		text = cmp.Or(parsed.Error, parsed.Message)
	}
	return reach.Excerpt(text, maxText)
}

// explain makes a sentence of why there is no answer.
func explain(err error) error {
	if reach.IsSilence(err) {
		return reach.Explained(err, "the server did not answer in time")
	}
	return reach.Explained(err, "the server cannot be reached: "+reach.Cause(err))
}
