package http

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	nethttp "net/http"
	"strconv"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/webhook"
)

// hmacSpec configures how requests are signed.
type hmacSpec struct {
	Format    string        `json:"format"`
	Secret    broker.Secret `json:"secret"`
	Header    string        `json:"header"`
	Algorithm string        `json:"algorithm"`
}

const signatureHeader = "X-Signalbox-Signature"

// standardFormat is the format of Standard Webhooks.
const standardFormat = "standard-webhooks"

// signer signs requests. It is safe for concurrent use.
type signer struct {
	standard  *webhook.Signer // if the format is that of Standard Webhooks
	secret    []byte
	header    string
	algorithm string
	hash      func() hash.Hash
}

func (s *hmacSpec) name() string {
	if s.Header == "" {
		return signatureHeader
	}
	return s.Header
}

func (s *hmacSpec) check(h nethttp.Header, p *bridges.Problems) {
	if s.Format == standardFormat {
		s.checkStandard(h, p)
	} else if msg := headerProblem(s.name()); msg != "" {
		p.Add("connection.hmac.header", msg)
	} else if h.Get(s.name()) != "" {
		p.Add("connection.hmac.header", "is the name of another header already")
	}
}

// checkStandard checks what Standard Webhooks leaves no choice of.
func (s *hmacSpec) checkStandard(h nethttp.Header, p *bridges.Problems) {
	if _, err := webhook.NewSigner(string(s.Secret)); err != nil {
		p.Add("connection.hmac.secret", err.Error())
	}
	if s.name() != signatureHeader {
		p.Add("connection.hmac.header", "must be absent: the format has headers of its own")
	}
	if s.Algorithm == "sha512" {
		p.Add("connection.hmac.algorithm", "must be sha256 with this format")
	}
	for _, name := range []string{webhook.IDHeader, webhook.TimestampHeader, webhook.SignatureHeader} {
		if h.Get(name) != "" {
			p.Add("connection.hmac.format", "sets the header "+name+", which is configured already")
		}
	}
}

// signer returns nil if requests are not signed.
func (s *hmacSpec) signer() *signer {
	if s == nil {
		return nil
	}
	if s.Format == standardFormat {
		standard, _ := webhook.NewSigner(string(s.Secret)) //nolint:errcheck // checked
		return &signer{standard: &standard}
	}
	sg := &signer{secret: []byte(s.Secret), header: s.name(), algorithm: "sha256", hash: sha256.New}
	if s.Algorithm == "sha512" {
		sg.algorithm, sg.hash = s.Algorithm, sha512.New
	}
	return sg
}

// sign adds the signature of a body that is sent at the given time. The id is that of what is
// sent, for each attempt.
func (s *signer) sign(h nethttp.Header, id string, at time.Time, body []byte) {
	if s.standard != nil {
		s.standard.Sign(h.Set, id, at, body)
		return
	}
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(s.hash, s.secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	h.Set(s.header, "t="+t+","+s.algorithm+"="+hex.EncodeToString(mac.Sum(nil)))
}
