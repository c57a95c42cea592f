package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges/target"
)

// isRecordError reports whether a batch was refused because of its contents.
func isRecordError(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// recordReason returns why a message was refused.
func recordReason(err error, topic string) string {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Sprintf("the message is larger than the topic %q accepts, or than the option maxMessageBytes allows", topic)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Sprintf("the topic %q is not for clients to produce to", topic)
	}
	return fmt.Sprintf("the topic %q does not accept the message: %v", topic, err)
}

// isTopicError reports whether a topic accepts nothing at present, while others may.
func isTopicError(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.TopicAuthorizationFailed)
}

// topicError explains why a topic accepts nothing.
func topicError(err error, topic string) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return target.Explain(err, fmt.Sprintf("the user may not write to the topic %q: allow it at the cluster, or change the target", topic))
	case errors.Is(err, kerr.InvalidTopicException):
		return target.Explain(err, recordReason(err, topic))
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return target.Explain(err, fmt.Sprintf("there is no topic %q: create it, or set the option createTopics if the cluster permits that", topic))
	}
	return err
}

// explain returns an error with a text for operators. Last is the error of the last failed
// connection, if any; hasCredentials reports whether credentials are configured.
//
//revive:disable-next-line:cyclomatic // a flat list of cases, in the order in which they are tried
func explain(err, last error, hasCredentials bool) error {
	var untrusted *tls.CertificateVerificationError
	var eof *kgo.ErrFirstReadEOF
	switch {
	case target.IsExplained(err):
		return err
	case errors.As(err, &untrusted), errors.As(last, &untrusted):
		return target.Explain(err, "no broker can be reached: "+target.Reason(untrusted))
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(last, kerr.SaslAuthenticationFailed):
		return target.Explain(err, "the cluster refuses this client: check the user name, the password and the mechanism")
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(last, kerr.UnsupportedSaslMechanism):
		return target.Explain(err, "the cluster does not offer this SASL mechanism: choose another")
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return target.Explain(err, "the user may not produce idempotently: allow IDEMPOTENT_WRITE at the cluster, or set the option idempotent to false")
	case hasCredentials && (errors.Is(err, io.EOF) || errors.Is(last, io.EOF)):
		return target.Explain(err, "a broker ended the connection while the client logged in: check the user name, the password and the mechanism, and whether it expects TLS")
	case errors.As(err, &eof), errors.As(last, &eof), last != nil && errors.Is(last, io.EOF):
		return target.Explain(err, "a broker ended the connection at once: check whether it expects TLS, or SASL")
	case last != nil && !isTimeout(last):
		return target.Explain(last, "no broker can be reached: "+target.Reason(last))
	case isTimeout(err), last != nil:
		return target.Explain(err, "the cluster did not answer in time: check whether it runs, the addresses, and whether it expects TLS")
	case errors.Is(err, kgo.ErrClientClosed):
		return target.Explain(err, "the connection to the cluster was closed")
	}
	if kafkaErr, ok := errors.AsType[*kerr.Error](err); ok {
		return target.Explain(err, "the cluster does not accept messages: "+kafkaErr.Error())
	}
	return target.Explain(err, "the cluster does not accept messages: "+target.Reason(err))
}

// isTimeout reports whether an error is a timeout, or the closing of a connection after a
// timeout.
func isTimeout(err error) bool { return target.IsTimeout(err) || errors.Is(err, net.ErrClosed) }
