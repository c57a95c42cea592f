package broker

// Diagnoser is a broker that reports how an attempt to connect went.
type Diagnoser interface {
	// Diagnose describes the attempt for which Ready returned an error, or with nil the one
	// that succeeded.
	Diagnose(err error) Diagnosis
}

// Diagnosis describes an attempt to connect. Its lists are never nil.
type Diagnosis struct {
	Steps        []ConnectStep          `json:"steps" doc:"Steps of the attempt in their order. A step that the URL does not need is absent."`
	Cause        ConnectCause           `json:"cause,omitempty" doc:"Why the attempt failed or, if the broker is connected, why its access control cannot be managed, as a word for programs. Absent if neither." example:"untrusted"`
	Remedies     []Remedy               `json:"remedies" doc:"What may put that right."`
	Certificates []PresentedCertificate `json:"certificates" doc:"Certificates that the broker presented, its own first, at most 10. Empty without TLS."`
}

// NewDiagnosis returns one without steps.
func NewDiagnosis() Diagnosis {
	return Diagnosis{Steps: []ConnectStep{}, Remedies: []Remedy{}, Certificates: []PresentedCertificate{}}
}

// ConnectStep is a step of an attempt to connect.
type ConnectStep struct {
	Step  string `json:"step" enum:"name|port|tls|websocket|login|control" doc:"name: resolve the host; port: connect over TCP; tls and websocket: handshakes; login: MQTT CONNECT; control: dynamic security over $CONTROL." example:"tls"`
	State string `json:"state" enum:"good|limited|failed|not-reached" doc:"Result of the step. limited: the broker is connected, but its access control cannot be managed." example:"failed"`
}

// The steps of an attempt.
const (
	StepName      = "name"
	StepPort      = "port"
	StepTLS       = "tls"
	StepWebSocket = "websocket"
	StepLogin     = "login"
	StepControl   = "control"
)

// The states of a step.
const (
	StepGood       = "good"
	StepLimited    = "limited"
	StepFailed     = "failed"
	StepNotReached = "not-reached"
)

// ConnectCause is why an attempt to connect failed.
type ConnectCause string

// The causes, by the step that failed.
const (
	CauseUnknownName ConnectCause = "unknown-name"
	CauseNameServer  ConnectCause = "name-server"

	CauseNotAllowed  ConnectCause = "not-allowed" // by the configuration of this service
	CauseRefused     ConnectCause = "refused"
	CauseNoRoute     ConnectCause = "no-route"
	CauseNoAnswer    ConnectCause = "no-answer"
	CauseUnreachable ConnectCause = "unreachable"

	CauseUntrusted                ConnectCause = "untrusted"
	CauseWrongName                ConnectCause = "wrong-name"
	CauseExpired                  ConnectCause = "expired" // or not valid yet
	CauseInvalidCertificate       ConnectCause = "invalid-certificate"
	CauseOtherCertificate         ConnectCause = "other-certificate" // than the pinned one
	CauseNoTLS                    ConnectCause = "no-tls"
	CauseNoCommonTLS              ConnectCause = "no-common-tls"
	CauseSilentTLS                ConnectCause = "silent-tls"
	CauseClientCertificateWanted  ConnectCause = "client-certificate-wanted"
	CauseClientCertificateRefused ConnectCause = "client-certificate-refused"

	CauseNoWebSocket     ConnectCause = "no-websocket"
	CauseSilentWebSocket ConnectCause = "silent-websocket"

	CauseTLSWanted          ConnectCause = "tls-wanted"
	CauseHTTP               ConnectCause = "http"
	CauseNotMQTT            ConnectCause = "not-mqtt"
	CauseSilent             ConnectCause = "silent"
	CauseClosed             ConnectCause = "closed" // before the log-in
	CauseProtocolVersion    ConnectCause = "protocol-version"
	CauseClientID           ConnectCause = "client-id"
	CauseServerUnavailable  ConnectCause = "server-unavailable"
	CauseCredentialsWanted  ConnectCause = "credentials-wanted"
	CauseCredentialsRefused ConnectCause = "credentials-refused"

	CauseLost              ConnectCause = "lost" // after the log-in
	CauseNoDynamicSecurity ConnectCause = "no-dynamic-security"
	CauseControlDenied     ConnectCause = "control-denied"
)

// Remedy is what may put a cause right: lines to copy, and where they belong.
type Remedy struct {
	Remedy string `json:"remedy" doc:"Word for programs; new ones may be added." example:"compare-fingerprint"`
	Text   string `json:"text" doc:"What the lines do, as a sentence." example:"Compare the fingerprint with that of the broker's own file."`
	Where  string `json:"where" enum:"mosquitto.conf|broker-shell|service-shell" doc:"Where the lines belong: broker-shell is a command line on the machine of the broker, service-shell on that of this service." example:"broker-shell"`
	Lines  string `json:"lines" doc:"Lines to copy. Paths and the user admin are those of Debian's packages and of Mosquitto's manual." example:"openssl x509 -noout -fingerprint -sha256 -in /etc/mosquitto/certs/server.crt"`
}

// PresentedCertificate is a certificate that a broker presented.
type PresentedCertificate struct {
	Subject     string               `json:"subject" doc:"Distinguished name of the holder; may be empty." example:"CN=broker.example"`
	Issuer      string               `json:"issuer" doc:"Distinguished name of the authority that signed it." example:"CN=Plant CA"`
	Names       []string             `json:"names" doc:"Host names and IP addresses that it is for, at most 100." example:"broker.example"`
	NotBefore   int64                `json:"notBefore" format:"epoch-ms" doc:"Start of its validity, in epoch milliseconds." example:"1769860800000"`
	NotAfter    int64                `json:"notAfter" format:"epoch-ms" doc:"End of its validity, in epoch milliseconds." example:"1801396800000"`
	Fingerprint string               `json:"fingerprint" doc:"SHA-256 fingerprint. That of the first certificate can be pinned as server_fingerprint." example:"5E:C6:0C:4D:7A:26:1B:9F:0A:7B:5D:4C:2F:F3:10:88:3E:93:7D:6B:1C:55:0E:AA:41:9D:C2:77:60:F8:2B:13"`
	Problems    []CertificateProblem `json:"problems" doc:"Why it is not trusted; empty if it is, or if it is the pinned one."`
}

// CertificateProblem is why a certificate is not trusted.
type CertificateProblem struct {
	Problem string `json:"problem" enum:"self-signed|unknown-authority|wrong-name|expired|not-yet-valid|invalid|not-pinned" doc:"Word for programs." example:"unknown-authority"`
	Text    string `json:"text" doc:"The problem as a sentence." example:"The authority that signed it is not trusted here."`
}

// The problems of certificates.
const (
	ProblemSelfSigned       = "self-signed"
	ProblemUnknownAuthority = "unknown-authority"
	ProblemWrongName        = "wrong-name"
	ProblemExpired          = "expired"
	ProblemNotYetValid      = "not-yet-valid"
	ProblemInvalid          = "invalid"
	ProblemNotPinned        = "not-pinned"
)
