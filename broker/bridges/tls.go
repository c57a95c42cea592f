package bridges

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
)

// TLS is "#/$defs/tls" of common.json.
type TLS struct {
	Enabled           bool   `json:"enabled"`
	Verify            *bool  `json:"verify"` // nil is true
	CACertificate     string `json:"caCertificate"`
	ClientCertificate string `json:"clientCertificate"`
	ClientKey         string `json:"clientKey"`
	ServerName        string `json:"serverName"`
}

// Credentials are "#/$defs/credentials" of common.json.
type Credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Config returns the configuration for a host, nil without TLS. It reports problems below path,
// such as "connection.tls".
func (t *TLS) Config(host, path string, p *Problems) *tls.Config {
	if t == nil || !t.Enabled {
		return nil
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         cmp.Or(t.ServerName, host),
		InsecureSkipVerify: t.Verify != nil && !*t.Verify, //nolint:gosec // the operator asked for it
	}
	if t.CACertificate != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CACertificate)) {
			p.Add(path+".caCertificate", "contains no certificate in PEM")
		}
	}
	if cert := t.certificate(path, p); cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	return config
}

// certificate returns the client certificate, nil for none.
func (t *TLS) certificate(path string, p *Problems) *tls.Certificate {
	switch {
	case t.ClientCertificate == "" && t.ClientKey == "":
		return nil
	case t.ClientKey == "":
		p.Add(path+".clientKey", "is missing beside clientCertificate")
		return nil
	case t.ClientCertificate == "":
		p.Add(path+".clientCertificate", "is missing beside clientKey")
		return nil
	case encrypted([]byte(t.ClientKey)):
		p.Add(path+".clientKey", "is encrypted; give the key without a pass phrase")
		return nil
	}
	cert, err := tls.X509KeyPair([]byte(t.ClientCertificate), []byte(t.ClientKey))
	if err != nil {
		p.Add(path+".clientKey", "is not the private key of clientCertificate, or one of them is not PEM")
		return nil
	}
	return &cert
}

// encrypted reports whether the first private key in a PEM text is protected by a pass phrase, in
// the traditional format or in that of PKCS #8.
func encrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return true
		}
		if slices.Contains([]string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"}, block.Type) {
			return false
		}
	}
	return false
}

// Decode decodes the document of a connection into the members that a kind knows: other members
// are ignored, and missing ones left unchanged.
func Decode(document json.RawMessage, into any) (p Problems) {
	err := json.Unmarshal(document, into)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Problems{{wrong.Field, "is a " + wrong.Value + ", which cannot be used here"}}
	}
	return Problems{{"", "cannot be read"}}
}
