package client

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// firstCertificate returns the first certificate of a PEM file, which is the server's.
func firstCertificate(text []byte) (*x509.Certificate, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("the certificate file contains no certificate")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
		text = rest
	}
}
