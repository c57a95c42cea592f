// Package webhook signs HTTP requests as Standard Webhooks (standardwebhooks.com, version 1.0.0)
// demands: the headers webhook-id, webhook-timestamp and webhook-signature, with HMAC-SHA-256.
//
// It must not import other packages of ours.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	IDHeader        = "Webhook-Id"
	TimestampHeader = "Webhook-Timestamp"
	SignatureHeader = "Webhook-Signature"
)

// These are the bounds of a secret: its length in bytes, and how many there may be.
const (
	minSecret  = 24
	maxSecret  = 64
	maxSecrets = 4
)

const prefix = "whsec_"

var errSecret = errors.New(`must be "whsec_" and 24 to 64 random bytes in base64, as from: echo "whsec_$(openssl rand -base64 32)"; while it is changed, the new and the old one separated by a space`)

// Signer signs requests. It is safe for concurrent use. The zero value does not sign.
type Signer struct{ secrets [][]byte }

// NewSigner returns a signer with a secret or, while that is being changed, with several
// separated by spaces, each of which makes a signature. Its error does not contain the secret.
func NewSigner(secrets string) (s Signer, err error) {
	for text := range strings.FieldsSeq(secrets) {
		encoded, found := strings.CutPrefix(text, prefix)
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(secret) < minSecret || len(secret) > maxSecret || len(s.secrets) == maxSecrets {
			return Signer{}, errSecret
		}
		s.secrets = append(s.secrets, secret)
	}
	if len(s.secrets) == 0 {
		return s, errSecret
	}
	return s, nil
}

// Sign sets the headers of a request that is sent at a time. The id is the same for each attempt
// to send one message, and must not contain a dot.
func (s Signer) Sign(set func(header, value string), id string, at time.Time, body []byte) {
	if len(s.secrets) == 0 {
		return
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, 0, len(s.secrets))
	for _, secret := range s.secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	set(IDHeader, id)
	set(TimestampHeader, timestamp)
	set(SignatureHeader, strings.Join(signatures, " "))
}

// ID returns the id of a message that is determined by the given parts.
func ID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return "msg_" + hex.EncodeToString(h.Sum(nil)[:16])
}
