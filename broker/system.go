package broker

import "context"

// System is what a broker tells about itself.
type System interface {
	// SysTopics gives the broker's $SYS tree as last seen, and a history of
	// earlier samples, oldest first.
	SysTopics(ctx context.Context) (now SysTopics, history []SysTopics, err error)
	GetLicense(ctx context.Context) (License, error)
	ListListeners(ctx context.Context) ([]Listener, error)
}

// SysTopics is a sample of the $SYS tree. Date is in epoch milliseconds.
type SysTopics struct {
	Topics map[string]string `json:"topics"`
	Date   int64             `json:"date"`
}

// License is a broker's licence. Times are epoch milliseconds, 0 where the
// licence does not expire. Features is never nil.
type License struct {
	Plan       string   `json:"plan"`
	Edition    string   `json:"edition"`
	IssuedBy   string   `json:"issuedBy"`
	IssuedTo   string   `json:"issuedTo"`
	ValidSince int64    `json:"validSince"`
	ValidUntil int64    `json:"validUntil"`
	Features   []string `json:"features"`
}

// Listener is a place where a broker accepts clients. Certs is never nil.
type Listener struct {
	ID                 int            `json:"id"`
	Port               int            `json:"port"`
	BindAddress        string         `json:"bindAddress"`
	Protocol           string         `json:"protocol"`
	TLS                bool           `json:"tls"`
	RequireCertificate bool           `json:"requireCertificate"`
	Certs              []ListenerCert `json:"certs"`
}

// ListenerCert is a certificate attached to a listener.
type ListenerCert struct {
	CertificateID string `json:"certificate_id"`
	Name          string `json:"name"`
	Filename      string `json:"filename"`
}
