package http

import (
	"encoding/base64"
	nethttp "net/http"
	"regexp"
	"strconv"
	"strings"

	"signalbox/broker"
	"signalbox/broker/bridges"
)

// document is the configuration of a connection.
type document struct {
	Connection    server         `json:"connection"`
	Options       options        `json:"options"`
	TopicMappings []topicMapping `json:"topicMappings"`
}

type server struct {
	URL           string                   `json:"url"`
	Credentials   bridges.Credentials      `json:"credentials"`
	Token         broker.Secret            `json:"token"`
	Headers       map[string]string        `json:"headers"`
	SecretHeaders map[string]broker.Secret `json:"secretHeaders"`
	TLS           bridges.TLS              `json:"tls"`
	HMAC          *hmacSpec                `json:"hmac"`
}

type options struct {
	Concurrency   int   `json:"concurrency"`
	SuccessStatus []int `json:"successStatus"`
	RetryStatus   []int `json:"retryStatus"`
}

// reserved maps the headers that cannot be configured to the reason.
var reserved = map[string]string{
	"Host": "it comes from the URL", "Content-Type": "it is the contentType of a topic mapping",
	"Content-Length": "", "Transfer-Encoding": "", "Connection": "", "Keep-Alive": "", "Te": "", "Trailer": "", "Upgrade": "", "Expect": "",
	"Proxy-Connection": "", messageIDHeader: "", topicHeader: "",
}

// isToken reports whether s is a valid header name.
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}) < 0
}

// isHeaderValue reports whether s is a valid header value.
func isHeaderValue[T ~string](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// headerProblem returns why a header cannot be configured, "" if it can.
func headerProblem(name string) string {
	if !isToken(name) {
		return "is not a name of a header"
	}
	why, ok := reserved[nethttp.CanonicalHeaderKey(name)]
	switch {
	case !ok:
		return ""
	case why == "":
		return "is set by the bridge"
	}
	return "cannot be set here: " + why
}

// header returns the headers of every request.
func (s *server) header(p *bridges.Problems) nethttp.Header {
	h := nethttp.Header{"User-Agent": {"signalbox"}}
	for name, value := range s.Headers {
		at := memberPath("connection.headers", name)
		addHeader(h, at, name, value, p)
		if isSecretHeader(name) {
			p.Add(at, "is a secret: it belongs to secretHeaders")
		}
	}
	for name, value := range s.SecretHeaders {
		at := memberPath("connection.secretHeaders", name)
		if h.Get(name) != "" && !strings.EqualFold(name, "User-Agent") {
			p.Add(at, "is given twice")
		}
		addHeader(h, at, name, string(value), p)
	}
	s.authorize(h, p)
	if s.HMAC != nil {
		s.HMAC.check(h, p)
	}
	return h
}

// isSecretHeader reports whether the value of a header is always secret.
func isSecretHeader(name string) bool {
	c := nethttp.CanonicalHeaderKey(name)
	return c == "Authorization" || c == "Cookie" || c == "Proxy-Authorization"
}

func addHeader(h nethttp.Header, at, name, value string, p *bridges.Problems) {
	if msg := headerProblem(name); msg != "" {
		p.Add(at, msg)
	}
	if !isHeaderValue(value) {
		p.Add(at, "has a value with characters that no header has")
	}
	h.Set(name, value)
}

func (s *server) authorize(h nethttp.Header, p *bridges.Problems) {
	basic := s.Credentials.Username != "" || s.Credentials.Password != ""
	if basic && s.Token != "" {
		p.Add("connection.token", "must not be there beside credentials")
	}
	if (basic || s.Token != "") && h.Get("Authorization") != "" {
		p.Add("connection.secretHeaders", "must not have Authorization beside credentials or token")
	}
	switch {
	case basic && strings.Contains(s.Credentials.Username, ":"):
		p.Add("connection.credentials.username", "must not have a colon")
	case basic:
		h.Set("Authorization", "Basic "+s.basic())
	case !isHeaderValue(s.Token):
		p.Add("connection.token", "has characters that no header has")
	case s.Token != "":
		h.Set("Authorization", "Bearer "+string(s.Token))
	}
}

func (s *server) basic() string {
	return base64.StdEncoding.EncodeToString([]byte(s.Credentials.Username + ":" + s.Credentials.Password))
}

// redactor returns a replacer that redacts the secrets in a response, as a server may echo them.
func (s *server) redactor() *strings.Replacer {
	var pairs []string
	hide := func(secret string) {
		if secret != "" {
			pairs = append(pairs, secret, "********")
		}
	}
	if s.Credentials.Password != "" {
		hide(s.basic())
	}
	hide(s.Credentials.Password)
	hide(string(s.Token))
	for _, value := range s.SecretHeaders {
		hide(string(value))
	}
	if s.HMAC != nil {
		hide(string(s.HMAC.Secret))
	}
	return strings.NewReplacer(pairs...)
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// memberPath returns the path of an object's member with an arbitrary name.
func memberPath(path, name string) string {
	if plainName.MatchString(name) {
		return path + "." + name
	}
	return path + "[" + strconv.Quote(name) + "]"
}
