package remote

import (
	"errors"
	"net/netip"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// Diagnose describes the attempt for which Ready returned an error, or with nil the one that
// succeeded.
func (b *Broker) Diagnose(err error) broker.Diagnosis {
	d := broker.NewDiagnosis()
	f, failed := errors.AsType[*failure](err)
	switch {
	case failed:
		d.Cause = b.causeOf(f)
		d.Certificates = b.endpoint.Certificates(f.Seen, b.now())
		d.Steps = b.steps(b.failedStep(f, d.Cause), broker.StepFailed)
	case err != nil: // the attempt did not end in time
		return d
	default:
		d.Certificates = b.endpoint.Certificates(b.link.handshake(), b.now())
		if d.Cause = b.link.controlCause(); d.Cause != "" {
			d.Steps = b.steps(broker.StepControl, broker.StepLimited)
		} else {
			d.Steps = b.steps("", "")
		}
	}
	d.Remedies = b.remedies(d.Cause)
	return d
}

func (b *Broker) causeOf(f *failure) broker.ConnectCause {
	if f.Stage >= dial.StageConnected {
		return broker.CauseLost
	}
	return b.endpoint.Cause(f, b.username)
}

// steps returns the steps of the endpoint, of which one ended in a state and those after it
// were not reached.
func (b *Broker) steps(ended, state string) []broker.ConnectStep {
	list := []broker.ConnectStep{}
	reached := broker.StepGood
	for _, s := range b.stepNames() {
		if s == ended {
			list = append(list, broker.ConnectStep{Step: s, State: state})
			reached = broker.StepNotReached
			continue
		}
		list = append(list, broker.ConnectStep{Step: s, State: reached})
	}
	return list
}

// stepNames returns the steps that the endpoint needs.
func (b *Broker) stepNames() (names []string) {
	if _, err := netip.ParseAddr(b.endpoint.Host); err != nil {
		names = append(names, broker.StepName)
	}
	names = append(names, broker.StepPort)
	if b.endpoint.UsesTLS() {
		names = append(names, broker.StepTLS)
	}
	if b.endpoint.UsesWebSocket() {
		names = append(names, broker.StepWebSocket)
	}
	return append(names, broker.StepLogin, broker.StepControl)
}

// failedStep returns the step at which an attempt failed. A client certificate belongs to TLS,
// also where the broker rejects it later, as it may under TLS 1.3.
func (b *Broker) failedStep(f *failure, cause broker.ConnectCause) string {
	switch {
	case cause == broker.CauseUnknownName, cause == broker.CauseNameServer:
		return broker.StepName
	case f.Stage == dial.StageDial:
		return broker.StepPort
	case f.Stage == dial.StageTLS, cause == broker.CauseClientCertificateWanted, cause == broker.CauseClientCertificateRefused:
		return broker.StepTLS
	case f.Stage == dial.StageWebSocket:
		return broker.StepWebSocket
	case f.Stage == dial.StageConnect:
		return broker.StepLogin
	}
	return broker.StepControl
}

// handshake returns what the last session learned from TLS.
func (l *link) handshake() *dial.Handshake {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// controlCause returns why the access control of the broker cannot be managed, "" if it can.
func (l *link) controlCause() broker.ConnectCause {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	switch {
	case o.has(broker.CapDynamicSecurity):
		return ""
	case o.isDenied(broker.CapDynamicSecurity):
		return broker.CauseControlDenied
	}
	return broker.CauseNoDynamicSecurity
}
