package sinks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"signalbox/broker/webhook"
)

// hook posts JSON lines. Only a response of 2xx is an acknowledgement: a redirect is not
// followed, as it would take the token elsewhere.
type hook struct {
	url, token, caFile string
	signer             webhook.Signer
	now                func() time.Time
	client             *http.Client
}

func (h *hook) send(ctx context.Context, list []record) (err error) {
	if len(list) == 0 {
		return nil
	}
	if h.client == nil {
		if h.client, err = newHTTPClient(h.caFile); err != nil {
			return err
		}
	}
	body := lines(list)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "signalbox")
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	h.signer.Sign(r.Header.Set, webhook.ID(string(body)), h.now(), body)
	response, err := h.client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // without the URL, which may be a secret
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()                                          //nolint:errcheck // only read
	io.Copy(io.Discard, io.LimitReader(response.Body, maxResponseBytes)) //nolint:errcheck // the status decides
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver has responded %s; only 2xx acknowledges the rows", response.Status)
	}
	return nil
}

// maxResponseBytes bounds what is read of a response so that its connection can be used again.
const maxResponseBytes = 64 << 10

// close lets the next request read the certificates again.
func (h *hook) close() {
	if h.client != nil {
		h.client.CloseIdleConnections()
		h.client = nil
	}
}

func newHTTPClient(caFile string) (*http.Client, error) {
	cfg, err := tlsConfig(caFile, "")
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = cfg
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// tlsConfig returns a configuration that trusts the certificates of a file, or without one those
// of the system.
func tlsConfig(caFile, host string) (*tls.Config, error) {
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return cfg, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("audit.sinks.ca_file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("audit.sinks.ca_file: it has no certificate in PEM")
	}
	return cfg, nil
}
