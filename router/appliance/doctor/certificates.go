package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"signalbox/broker/thresholds"
)

// Pair checks a certificate with its chain, and the key of it, in two files that a configuration
// names.
func Pair(key, certFile, keyFile string, now time.Time) []Finding {
	const remedy = "put a certificate and its key into the files, as PEM"
	text, err := os.ReadFile(certFile)
	if err != nil {
		return []Finding{Bad("certificates", key, "cannot be read: "+err.Error(), remedy+", and make them readable for the user that runs the service")}
	}
	secret, err := os.ReadFile(keyFile)
	if err != nil {
		return []Finding{Bad("certificates", key, "the key cannot be read: "+err.Error(), remedy+", and make them readable for the user that runs the service")}
	}
	found := Chain(key, string(text), now)
	if _, err := tls.X509KeyPair(text, secret); err != nil {
		found = append(found, Bad("certificates", key, fmt.Sprintf("the key in %s does not fit the certificate in %s: %v", keyFile, certFile, err), remedy+" that belong together"))
	}
	return found
}

// Authorities checks the certificates in a file that a configuration names.
func Authorities(key, file string, now time.Time) []Finding {
	text, err := os.ReadFile(file)
	if err != nil {
		return []Finding{Bad("certificates", key, "cannot be read: "+err.Error(), "put the certificates into the file, as PEM")}
	}
	all, err := parse(string(text))
	if err != nil {
		return []Finding{Bad("certificates", key, err.Error(), "put the certificates into the file, as PEM")}
	}
	return ends(key, all, now)
}

// Chain checks certificates, of which each but the last is signed by the next one.
func Chain(object, text string, now time.Time) []Finding {
	all, err := parse(text)
	if err != nil {
		return []Finding{Bad("certificates", object, err.Error(), "replace it by certificates as PEM, that of the holder first")}
	}
	for i, c := range all[:len(all)-1] {
		if c.CheckSignatureFrom(all[i+1]) != nil {
			return append(ends(object, all, now), Warn("certificates", object, fmt.Sprintf("the chain is broken: %s is not signed by %s, which follows it", c.Subject, all[i+1].Subject),
				"order the certificates: that of the holder first, then each one that signed the one before"))
		}
	}
	return ends(object, all, now)
}

// Listed checks certificates that need not be a chain.
func Listed(object, text string, now time.Time) []Finding {
	all, err := parse(text)
	if err != nil {
		return []Finding{Bad("certificates", object, err.Error(), "replace it by certificates as PEM")}
	}
	return ends(object, all, now)
}

func parse(text string) (all []*x509.Certificate, err error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("holds a certificate that cannot be read: %w", err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("holds no certificate")
	}
	return all, nil
}

// ends returns a finding for each certificate that is not valid, or not for long, or else one for
// the certificate that ends first.
func ends(object string, all []*x509.Certificate, now time.Time) (found []Finding) {
	first := all[0]
	for _, c := range all {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
		if f := dates(object, c, now); f.Level != OK {
			found = append(found, f)
		}
	}
	if found == nil {
		found = append(found, dates(object, first, now))
	}
	return found
}

func dates(object string, c *x509.Certificate, now time.Time) Finding {
	const remedy = "renew it, and replace the file; the service reads it again without a restart"
	days := int(c.NotAfter.Sub(now).Hours() / 24)
	switch {
	case now.After(c.NotAfter):
		return Bad("certificates", object, fmt.Sprintf("%s has expired on %s", name(c), c.NotAfter.UTC().Format(time.DateOnly)), remedy)
	case now.Before(c.NotBefore):
		return Bad("certificates", object, fmt.Sprintf("%s is not valid before %s", name(c), c.NotBefore.UTC().Format(time.DateOnly)), "set the clock of this machine, or use another certificate")
	case days < thresholds.CertificateDays:
		return Warn("certificates", object, fmt.Sprintf("%s expires in %d days", name(c), days), remedy)
	}
	return Good("certificates", object, "%s is valid for %d days", name(c), days)
}

// name returns the subject of a certificate, or what stands in its place.
func name(c *x509.Certificate) string {
	if s := c.Subject.String(); s != "" {
		return s
	}
	return "the certificate with the serial number " + c.SerialNumber.String()
}
