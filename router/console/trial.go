package console

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// trial is the outcome of the test of a connection, as the API returns it.
type trial struct {
	Connected    bool              `json:"connected"`
	Error        string            `json:"error"`
	Capabilities []string          `json:"capabilities"`
	Missing      []missingFeature  `json:"missing"`
	Steps        []trialStep       `json:"steps"`
	Cause        string            `json:"cause"`
	Remedies     []trialRemedy     `json:"remedies"`
	Certificates []peerCertificate `json:"certificates"`
}

// trialStep is a step of the attempt, and how it ended.
type trialStep struct {
	Step  string `json:"step"`
	State string `json:"state"`
}

// trialRemedy is lines that may put the cause right.
type trialRemedy struct {
	Remedy string `json:"remedy"`
	Text   string `json:"text"`
	Where  string `json:"where"`
	Lines  string `json:"lines"`
}

// peerCertificate is a certificate that the broker presented.
type peerCertificate struct {
	Subject     string   `json:"subject"`
	Issuer      string   `json:"issuer"`
	Names       []string `json:"names"`
	NotBefore   int64    `json:"notBefore"`
	NotAfter    int64    `json:"notAfter"`
	Fingerprint string   `json:"fingerprint"`
	Problems    []struct {
		Problem string `json:"problem"`
		Text    string `json:"text"`
	} `json:"problems"`
}

// trialView is the outcome of a test as it is shown below the form that it belongs to.
type trialView struct {
	trial
	Form     string // id of the form
	State    string // good, warn if it is limited, or bad
	Title    string
	Why      string // it failed, in the terms of the form, or is limited
	Features []shownFeature
	Steps    []shownStep
	Remedies []shownRemedy
	Chain    []shownCertificate
	Pinned   bool   // the first certificate is the pinned one
	Pin      string // fingerprint that can be pinned, "" if there is nothing to pin
	Outdated string // warning about the dates of a certificate that is, or can be, pinned
}

// shownStep is a step with the words for it.
type shownStep struct{ Icon, State, Name, Text string }

// shownRemedy is a remedy with the words for it.
type shownRemedy struct {
	ID    string // of the element with the lines
	Text  string
	Where string
	Lines string
}

// shownCertificate is a certificate with the words for its problems.
type shownCertificate struct {
	peerCertificate
	Title string
	Wrong []string
}

// shownTrial returns the outcome of the test for the page, nil before one.
func (q *request) shownTrial(f form) *trialView {
	t := q.trial
	if t == nil {
		return nil
	}
	v := &trialView{trial: *t, Form: f.ID, Features: shownFeatures(t.Capabilities, t.Missing, q.lang)}
	switch {
	case !t.Connected:
		v.State, v.Title, v.Why = "bad", q.known("trial.cause."+t.Cause, q.t("trial.failed")), q.inTermsOf(t.Error, f.label)
	case t.Cause != "":
		v.State, v.Title, v.Why = "warn", q.t("trial.limited"), q.known("trial.cause."+t.Cause, "")
	default:
		v.State, v.Title = "good", q.t("trial.good")
	}
	for _, s := range t.Steps {
		state := map[string]string{"good": "good", "limited": "warn", "failed": "bad"}[s.State]
		icon := state
		if state == "" {
			icon, state = "clock", "quiet"
		}
		v.Steps = append(v.Steps, shownStep{icon, state, q.known("trial.step."+s.Step, s.Step), q.known("trial.state."+s.State, s.State)})
	}
	for _, r := range t.Remedies {
		v.Remedies = append(v.Remedies, shownRemedy{"lines-" + r.Remedy, q.known("trial.remedy."+r.Remedy, r.Text), q.known("trial.where."+r.Where, r.Where), r.Lines})
	}
	for i, c := range t.Certificates {
		shown := shownCertificate{peerCertificate: c, Title: q.t("trial.certificate.own")}
		if i > 0 {
			shown.Title = q.t("trial.certificate.of_chain", i+1)
		}
		for _, p := range c.Problems {
			shown.Wrong = append(shown.Wrong, q.known("trial.problem."+p.Problem, p.Text))
		}
		v.Chain = append(v.Chain, shown)
	}
	q.addPin(v)
	return v
}

// addPin adds whether the certificate is pinned or can be.
func (q *request) addPin(v *trialView) {
	if len(v.Certificates) == 0 {
		return
	}
	v.Pinned = v.Connected && q.posted("server_fingerprint") != "" && len(v.Certificates[0].Problems) == 0
	v.Pin = v.pinnable(q.posted("verify_ca_cert") == "true")
	if v.Pinned || v.Pin != "" {
		v.Outdated = q.outdated(v.Certificates[0], time.Now())
	}
}

// pinnable returns the fingerprint of a certificate that is not trusted, or not verified, which
// can be pinned.
func (t *trial) pinnable(verified bool) string {
	untrusted := slices.ContainsFunc(t.Certificates, func(c peerCertificate) bool { return len(c.Problems) > 0 })
	if !untrusted || t.Connected && verified {
		return ""
	}
	return t.Certificates[0].Fingerprint
}

// outdated returns the warning about a certificate that is not valid now, "" for another one. Its
// dates do not matter once it is pinned.
func (q *request) outdated(c peerCertificate, now time.Time) string {
	switch at := now.UnixMilli(); {
	case at > c.NotAfter:
		return q.t("trial.outdated.expired")
	case at < c.NotBefore:
		return q.t("trial.outdated.not-yet-valid")
	}
	return ""
}

// settingNames matches the members of a connection that messages of the API name.
var settingNames = regexp.MustCompile(`\b(?:(?:the|since) url|verify_ca_cert|ca_cert|server_fingerprint|client_cert|client_key)\b`)

// inFormTerms returns a message of the API about a connection with the labels of the form's
// fields instead of the members that it names: a user of the API fills these, one of the console
// those. A field without a label keeps its name.
func inFormTerms(message string, label func(name string) string) string {
	return settingNames.ReplaceAllStringFunc(message, func(found string) string {
		name := strings.TrimPrefix(found, "the ")
		before := ""
		if rest, ok := strings.CutPrefix(name, "since "); ok {
			before, name = "since ", rest
		}
		if text := label(name); text != "" {
			return before + "“" + text + "”"
		}
		return found
	})
}

// inTermsOf returns a message of the API about a connection in the language of the user, or that of
// inFormTerms if it has no text in it.
func (q *request) inTermsOf(message string, label func(name string) string) string {
	if text, ok := q.lang.sentence(message); ok && q.lang.sentences != nil {
		return text
	}
	return inFormTerms(message, label)
}

// inConnectionTerms is inTermsOf for a page without the form.
func (q *request) inConnectionTerms(message string) string {
	return q.inTermsOf(message, func(name string) string { return q.t("connection.field." + name) })
}

// connectionFormID is the id of the form of a connection, to which the button that pins a
// certificate belongs.
const connectionFormID = "connection-form"

// fingerprintField is the field for the only certificate that the broker may present. It is a
// fragment, which a test replaces when a certificate was pinned.
func fingerprintField(value string) field {
	return field{Name: "server_fingerprint", Kind: kindText, Part: "fingerprint", Value: value}
}

// pin makes the posted form one that accepts the certificate that was shown, and no other.
func (q *request) pin() { q.http.PostForm.Set("server_fingerprint", q.posted("pin")) }
