package console

import (
	"regexp"
	"strings"
	"time"
)

// listenersView is the listeners of a broker with their certificates.
type listenersView struct {
	frame
	Listeners part[[]listenerRecord]
}

// listenerRecord is an entry of listListeners.
type listenerRecord struct {
	ID                 int    `json:"id"`
	Port               int    `json:"port"`
	BindAddress        string `json:"bindAddress"`
	Protocol           string `json:"protocol"`
	TLS                bool   `json:"tls"`
	RequireCertificate bool   `json:"requireCertificate"`
	Connections        *int   `json:"connections"` // nil if the broker does not report it

	Open  string                // the connections as text
	Certs []listenerCertificate `json:"certs"`
}

// listenerCertificate is a certificate of a listener. A broker may have ids of its own; that of
// the embedded one is the fingerprint, which all pages write in one form.
type listenerCertificate struct {
	ID       string `json:"certificate_id"`
	Name     string `json:"name"`
	Filename string `json:"filename"`
	NotAfter int64  `json:"notAfter"` // 0 if the broker does not report it

	What, Fingerprint string
	Validity          cell
}

func viewListeners(q *request) (view, error) {
	v := &listenersView{}
	var g parts
	load(&g, q, &v.Listeners, "listListeners", nil)
	g.wait()
	for i := range v.Listeners.Value {
		l := &v.Listeners.Value[i]
		if l.Connections != nil {
			l.Open = q.lang.number(*l.Connections)
		}
		for j := range l.Certs {
			l.Certs[j].name(q)
		}
	}
	return v, nil
}

// viewListenerCertificate downloads the certificates that a listener presents.
func viewListenerCertificate(q *request) (view, error) {
	var chain []byte
	if err := q.get("getListenerCertificate", nil, &chain); err != nil {
		return nil, err
	}
	return nil, errDownload{"listener-" + q.params["listenerId"] + ".pem", chain}
}

// name fills the texts of a certificate.
func (c *listenerCertificate) name(q *request) {
	if c.NotAfter != 0 {
		c.Validity = q.validity(time.UnixMilli(c.NotAfter), time.Now())
	}
	if c.Fingerprint = c.ID; sha256Digits.MatchString(c.ID) {
		c.What = q.t("trial.fingerprint")
		c.Fingerprint = strings.ToUpper(strings.TrimSuffix(digitPairs.ReplaceAllString(c.ID, "$0:"), ":"))
	}
}

var (
	sha256Digits = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	digitPairs   = regexp.MustCompile(`..`)
)
