package broker

import (
	"context"
	"slices"
	"time"
)

// System is what a broker reports about itself.
type System interface {
	// SysTopics returns the broker's $SYS tree as last seen, and a history of
	// earlier samples, oldest first.
	SysTopics(ctx context.Context) (now SysTopics, history []SysTopics, err error)
	// SysHistory returns the samples of the history that follow the one of a date, oldest
	// first; all if there is none of that date. It never blocks. The caller must not change
	// them.
	SysHistory(after int64) []SysTopics
	// SysUpdate returns the $SYS tree if the broker has reported it after a time, and false
	// otherwise and while an update is in progress. A broker in this process reports at
	// every call, and may omit topics whose values take long to compute. It never blocks.
	SysUpdate(after time.Time) (SysTopics, bool)
	GetLicense(ctx context.Context) (License, error)
	ListListeners(ctx context.Context) ([]Listener, error)
	// ListenerCertificate returns the certificates that a listener presents to clients, its own
	// first, as PEM.
	ListenerCertificate(ctx context.Context, listenerID int) ([]byte, error)
}

// SysTopics is a sample of the $SYS tree. Date is in epoch milliseconds. Reported is when the
// broker reported the values, for rates: with the monotonic clock, zero if it has not since it
// was connected.
type SysTopics struct {
	Topics map[string]string `json:"topics" doc:"Values of the $SYS topics, as text." example:"{\"$SYS/broker/version\":\"mosquitto version 2.0.18\",\"$SYS/broker/clients/connected\":\"42\"}"`
	Date   int64             `json:"date" format:"epoch-ms" doc:"Time of the sample, in epoch milliseconds." example:"1769860800000"`

	Reported time.Time `json:"-"`
}

// SysAfter returns a copy of the samples that follow the one of a date, all if there is none
// of that date. Dates are not compared by their order: the clock may have been set back.
func SysAfter(samples []SysTopics, date int64) []SysTopics {
	for i := len(samples) - 1; i >= 0; i-- {
		if samples[i].Date == date {
			return slices.Clone(samples[i+1:])
		}
	}
	return slices.Clone(samples)
}

// License is a broker's licence. Times are epoch milliseconds, 0 if the licence does
// not expire. Features is never nil.
type License struct {
	Plan       string   `json:"plan" doc:"Plan; open-source for a broker that needs no licence." example:"open-source"`
	Edition    string   `json:"edition" doc:"Edition; open-source for a broker that needs no licence." example:"open-source"`
	IssuedBy   string   `json:"issuedBy" doc:"Issuer; empty for a broker that needs no licence." example:"\"\""`
	IssuedTo   string   `json:"issuedTo" doc:"Licensee; empty for a broker that needs no licence." example:"\"\""`
	ValidSince int64    `json:"validSince" format:"epoch-ms" doc:"Start of the licence, in epoch milliseconds; 0 if it has none." example:"0"`
	ValidUntil int64    `json:"validUntil" format:"epoch-ms" doc:"End of the licence, in epoch milliseconds; 0 if it does not end." example:"0"`
	Features   []string `json:"features" doc:"Features that the licence includes." example:"dynamic-security|streams|bridges"`
}

// Listener is a listener of a broker. Certs is never nil.
type Listener struct {
	ID                 int            `json:"id" doc:"Number of the listener, unique in the broker." example:"1"`
	Port               int            `json:"port" doc:"TCP port." example:"8883"`
	BindAddress        string         `json:"bindAddress" doc:"Address on which the listener accepts connections." example:"0.0.0.0"`
	Protocol           string         `json:"protocol" doc:"Protocol of the listener, such as mqtt or websockets." example:"mqtt"`
	TLS                bool           `json:"tls" doc:"True if clients must use TLS." example:"true"`
	RequireCertificate bool           `json:"requireCertificate" doc:"True if clients must have a certificate." example:"false"`
	Certs              []ListenerCert `json:"certs" doc:"Certificates of the listener; empty without TLS."`
	Connections        *int           `json:"connections,omitempty" doc:"Number of open connections of the listener. Absent if the broker does not report it." example:"42"`
}

// CertificateWarningDays is how many days before its end a certificate is reported.
const CertificateWarningDays = 30

// ListenerCert is a certificate of a listener.
type ListenerCert struct {
	CertificateID string `json:"certificate_id" doc:"Id of the certificate; the embedded broker uses the SHA-256 of the certificate, hexadecimal." example:"4ad8c34e0ff6ad8f8c3cbb9e1d1c6b7f0c1a7d2f4b8e6a59c3d2e1f0a9b8c7d6"`
	Name          string `json:"name" doc:"Name in the certificate." example:"broker.example"`
	Filename      string `json:"filename" doc:"Name of the file that holds the certificate." example:"cert.pem"`
	NotAfter      int64  `json:"notAfter,omitempty" format:"epoch-ms" doc:"End of its validity, in epoch milliseconds. Absent if the broker does not report it." example:"1801396800000"`
}
