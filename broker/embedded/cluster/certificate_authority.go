package cluster

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"fmt"
)

// certifyBy signs a node's certificate with the authority of a cluster that an earlier release
// created. All members have its key, so it ends as soon as all of them run a release that
// identifies members by their keys (see pinAll).
func (i *identity) certifyBy(s *state, key crypto.Signer) error {
	ca, err := parseCerts(s.CACert)
	if err != nil {
		return err
	}
	signer, err := parseKey(s.CAKey)
	if err != nil {
		return err
	}
	own, err := certify(i.UUID, i.Self.ref(), key.Public(), key, notBefore, notAfter)
	if err != nil {
		return err
	}
	template, err := x509.ParseCertificate(own)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca[0], key.Public(), signer)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	i.CACert, i.Cert = s.CACert, encodeCerts(der)
	i.Key, err = encodeKey(key)
	return err
}
