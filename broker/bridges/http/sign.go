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
)

// hmacSpec configures how requests are signed.
type hmacSpec struct {
	Secret    broker.Secret `json:"secret"`
	Header    string        `json:"header"`
	Algorithm string        `json:"algorithm"`
}

const signatureHeader = "X-Signalbox-Signature"

// signer signs requests. It is safe for concurrent use.
type signer struct {
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
	if msg := headerProblem(s.name()); msg != "" {
		p.Add("connection.hmac.header", msg)
	} else if h.Get(s.name()) != "" {
		p.Add("connection.hmac.header", "is the name of another header already")
	}
}

// signer returns nil if requests are not signed.
func (s *hmacSpec) signer() *signer {
	if s == nil {
		return nil
	}
	sg := &signer{secret: []byte(s.Secret), header: s.name(), algorithm: "sha256", hash: sha256.New}
	if s.Algorithm == "sha512" {
		sg.algorithm, sg.hash = s.Algorithm, sha512.New
	}
	return sg
}

// sign adds the signature of a body that is sent at the given time.
func (s *signer) sign(h nethttp.Header, at time.Time, body []byte) {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(s.hash, s.secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	h.Set(s.header, "t="+t+","+s.algorithm+"="+hex.EncodeToString(mac.Sum(nil)))
}
